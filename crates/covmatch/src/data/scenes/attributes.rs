//! What a scene is made of: shapes, colours, sizes, fills, backgrounds, light, with the words that name them.
//!
//! Words are common English: but for "hexagon", each is one piece of BERT's vocabulary. Background phrases use no
//! colour word and no shape word, so that a colour or a shape in a caption always speaks of an object.

/// An enum with the list of all its values.
macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$value_doc])* $value,)+ }

        impl $name {
            /// All values, in order.
            pub const ALL: &'static [Self] = &[$(Self::$value,)+];
        }
    };
}
pub(super) use choices;

choices! {
    /// The outline of an object.
    Shape {
        /// A disc.
        Circle,
        /// Four equal sides, level.
        Square,
        /// Equal sides, pointing up.
        Triangle,
        /// Five points.
        Star,
        /// A disc with a round hole.
        Ring,
        /// Two crossed bars.
        Cross,
        /// A heart.
        Heart,
        /// Six equal sides.
        Hexagon,
        /// A moon, open to the right.
        Crescent,
        /// A narrow rhombus, standing.
        Diamond,
        /// Pointing up.
        Arrow,
        /// Five petals.
        Flower,
    }
}

impl Shape {
    /// Names as (singular, plural); the first pair is the usual one.
    pub fn names(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Circle => &[("circle", "circles"), ("disc", "discs")],
            Self::Square => &[("square", "squares"), ("box", "boxes")],
            Self::Triangle => &[("triangle", "triangles")],
            Self::Star => &[("star", "stars")],
            Self::Ring => &[("ring", "rings")],
            Self::Cross => &[("cross", "crosses"), ("plus sign", "plus signs")],
            Self::Heart => &[("heart", "hearts")],
            Self::Hexagon => &[("hexagon", "hexagons")],
            Self::Crescent => &[("moon", "moons"), ("crescent", "moons")],
            Self::Diamond => &[("diamond", "diamonds")],
            Self::Arrow => &[("arrow", "arrows")],
            Self::Flower => &[("flower", "flowers"), ("blossom", "blossoms")],
        }
    }
}

choices! {
    /// The colour of an object.
    Colour {
        /// Red.
        Red,
        /// Orange.
        Orange,
        /// Yellow.
        Yellow,
        /// Green.
        Green,
        /// Blue.
        Blue,
        /// Purple.
        Purple,
        /// Pink.
        Pink,
        /// Brown.
        Brown,
        /// Black.
        Black,
        /// White.
        White,
    }
}

impl Colour {
    /// Names; the first is the usual one.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Red => &["red"],
            Self::Orange => &["orange"],
            Self::Yellow => &["yellow"],
            Self::Green => &["green"],
            Self::Blue => &["blue"],
            Self::Purple => &["purple", "violet"],
            Self::Pink => &["pink"],
            Self::Brown => &["brown"],
            Self::Black => &["black"],
            Self::White => &["white"],
        }
    }

    /// Red, green, blue in 0..=255.
    pub fn rgb(self) -> [f32; 3] {
        match self {
            Self::Red => [214.0, 36.0, 40.0],
            Self::Orange => [246.0, 134.0, 22.0],
            Self::Yellow => [248.0, 216.0, 40.0],
            Self::Green => [36.0, 156.0, 66.0],
            Self::Blue => [36.0, 84.0, 214.0],
            Self::Purple => [134.0, 52.0, 184.0],
            Self::Pink => [248.0, 138.0, 186.0],
            Self::Brown => [118.0, 70.0, 36.0],
            Self::Black => [26.0, 26.0, 30.0],
            Self::White => [248.0, 248.0, 248.0],
        }
    }

    /// The second colour of stripes and dots: a tint that stands out from the first.
    pub fn accent(self) -> [f32; 3] {
        match self {
            Self::Yellow => [164.0, 128.0, 10.0],
            Self::White => [150.0, 154.0, 164.0],
            Self::Black => [168.0, 168.0, 172.0],
            Self::Pink => [255.0, 236.0, 244.0],
            other => other.rgb().map(|channel| channel + 0.74 * (255.0 - channel)),
        }
    }
}

choices! {
    /// How large an object is.
    Size {
        /// Half of large.
        Small,
        /// In between; captions seldom name it.
        Medium,
        /// Two fifths of the picture across.
        Large,
    }
}

impl Size {
    /// Names; none for the size that goes without saying.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Small => &["small", "little", "tiny"],
            Self::Medium => &[],
            Self::Large => &["large", "big", "huge"],
        }
    }

    /// Radius as a part of the picture's width.
    pub fn radius(self) -> f32 {
        match self {
            Self::Small => 0.105,
            Self::Medium => 0.148,
            Self::Large => 0.21,
        }
    }
}

choices! {
    /// How an object is filled.
    Fill {
        /// One colour.
        Plain,
        /// Slanted stripes in two tones.
        Striped,
        /// Dots on a ground.
        Dotted,
        /// Only the outline; the background shows through.
        Outlined,
    }
}

impl Fill {
    /// Words before the colour; none for the fill that goes without saying.
    pub fn adjectives(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &[],
            Self::Striped => &["striped"],
            Self::Dotted => &["dotted", "spotted"],
            Self::Outlined => &["hollow", "outlined", "empty"],
        }
    }

    /// Words after the shape that say the same; none when there is no such way.
    pub fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Plain | Self::Outlined => &[],
            Self::Striped => &["with stripes"],
            Self::Dotted => &["with dots", "with spots"],
        }
    }
}

choices! {
    /// What lies behind the objects.
    Background {
        /// Plain paper.
        Paper,
        /// A sky that runs from purple to orange.
        Sunset,
        /// Blades of grass.
        Grass,
        /// Daylight sky with clouds.
        Sky,
        /// Sand with ripples.
        Sand,
        /// Dark sky with points of light.
        Night,
        /// A brick wall.
        Bricks,
        /// Waves.
        Water,
        /// Boards with grain.
        Wood,
        /// Grey air with snowflakes.
        Snow,
        /// A floor of light and dark tiles.
        Tiles,
    }
}

impl Background {
    /// Colours that would not stand out from it. Every background excludes the same number of colours.
    pub fn clashes(self) -> [Colour; 3] {
        use Colour::*;
        match self {
            Self::Paper => [White, Yellow, Pink],
            Self::Sunset => [Orange, Pink, Purple],
            Self::Grass => [Green, Brown, Black],
            Self::Sky => [Blue, White, Purple],
            Self::Sand => [Yellow, Orange, Pink],
            Self::Night => [Black, Blue, Brown],
            Self::Bricks => [Red, Brown, Orange],
            Self::Water => [Blue, Green, Purple],
            Self::Wood => [Brown, Orange, Red],
            Self::Snow => [White, Pink, Purple],
            Self::Tiles => [White, Black, Brown],
        }
    }

    /// Where the objects are: "on the grass".
    pub fn grounds(self) -> &'static [&'static str] {
        match self {
            Self::Paper => &["on plain paper", "on a blank page", "on a clean page"],
            Self::Sunset => &["at sunset", "in the evening sky", "against an evening sky"],
            Self::Grass => &["on the grass", "in a meadow", "on a lawn", "in a grassy field"],
            Self::Sky => &["in a cloudy sky", "among the clouds", "in the daytime sky"],
            Self::Sand => &["on the sand", "on a beach", "in the desert"],
            Self::Night => &["at night", "in the night sky", "against a dark night sky"],
            Self::Bricks => &["on a brick wall", "against a wall of bricks", "against a brick wall"],
            Self::Water => &["on the water", "in the sea", "on the waves"],
            Self::Wood => &["on a wooden floor", "on wooden boards", "on a wooden table"],
            Self::Snow => &["in the snow", "in falling snow", "on a snowy day"],
            Self::Tiles => &["on a tiled floor", "on floor tiles", "on a floor of tiles"],
        }
    }

    /// The background itself: "a meadow".
    pub fn places(self) -> &'static [&'static str] {
        match self {
            Self::Paper => &["a blank page", "plain paper"],
            Self::Sunset => &["a sunset", "an evening sky"],
            Self::Grass => &["grass", "a meadow", "a lawn"],
            Self::Sky => &["clouds", "a cloudy sky"],
            Self::Sand => &["sand", "a beach", "a desert"],
            Self::Night => &["a night sky", "a dark night"],
            Self::Bricks => &["a brick wall", "bricks"],
            Self::Water => &["water", "the sea", "waves"],
            Self::Wood => &["wooden boards", "a wooden floor"],
            Self::Snow => &["snow", "falling snow"],
            Self::Tiles => &["floor tiles", "a tiled floor"],
        }
    }
}

choices! {
    /// How much light there is.
    Light {
        /// Enough: captions do not mention it.
        Bright,
        /// Little.
        Dim,
    }
}

impl Light {
    /// Phrases; none for the light that goes without saying.
    pub fn phrases(self) -> &'static [&'static str] {
        match self {
            Self::Bright => &[],
            Self::Dim => &["in dim light", "in the shade", "in weak light"],
        }
    }
}

/// One object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Its outline.
    pub shape: Shape,
    /// Its colour.
    pub colour: Colour,
    /// How large it is.
    pub size: Size,
    /// How it is filled.
    pub fill: Fill,
}
