//! The `scenes` dataset: distinct, repeatable, and described truthfully.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

use std::collections::{HashMap, HashSet};

use covmatch::data::scenes::attributes::{Background, Colour, Fill, Light, Object, Shape};
use covmatch::data::scenes::clip::{Change, ClipScene, Meeting, Motion, Presence, Sense};
use covmatch::data::scenes::description::{Arrangement, Axis, Direction, Scene};
use covmatch::data::scenes::{self, Description, Form, Placed, SceneConfig, SceneId};
use covmatch::data::{Dataset, Location, Split};

const CONFIG: SceneConfig = SceneConfig { seed: 5, train: 2100, val: 420, test: 420, size: 64 };

fn index(dataset: &Dataset, image: usize) -> u64 {
    match dataset.images[image].location {
        Location::Scene(index) => index,
        ref other => panic!("{other:?}"),
    }
}

fn picture(config: &SceneConfig, index: u64) -> Scene {
    match scenes::describe(config, index) {
        Description::Picture(scene) => scene,
        Description::Clip(clip) => panic!("{clip:?}"),
    }
}

fn clip(config: &SceneConfig, index: u64) -> ClipScene {
    match scenes::describe(config, index) {
        Description::Clip(clip) => clip,
        Description::Picture(scene) => panic!("{scene:?}"),
    }
}

/// Words of a caption in lower case, without marks.
fn words(caption: &str) -> Vec<String> {
    caption.split(' ').map(|word| word.trim_matches(['.', ',']).to_lowercase()).collect()
}

#[test]
fn a_dataset_has_the_splits_asked_for_and_five_different_captions_a_picture() {
    for dataset in [scenes::dataset(&CONFIG), scenes::clips(&CONFIG)] {
        let count = |split| dataset.images.iter().filter(|image| image.split == split).count();
        assert_eq!([Split::Train, Split::Val, Split::Test].map(count), [2100, 420, 420]);
        assert_eq!(dataset.captions.len(), 5 * dataset.images.len());
        for (i, five) in dataset.captions.chunks(5).enumerate() {
            assert!(five.iter().all(|caption| caption.image as usize == i));
            let different: HashSet<&str> = five.iter().map(|caption| caption.text.as_str()).collect();
            assert_eq!(different.len(), 5, "{different:?}");
            assert!(five.iter().all(|caption| (4..=30).contains(&words(&caption.text).len())), "{different:?}");
        }
    }
}

#[test]
fn no_two_scenes_share_a_description() {
    for form in [scenes::dataset, scenes::clips] {
        let dataset = form(&CONFIG);
        let mut seen = HashSet::new();
        for i in 0..dataset.images.len() {
            assert!(seen.insert(scenes::describe(&CONFIG, index(&dataset, i))), "{}", dataset.images[i].name);
        }
    }
}

#[test]
fn descriptions_that_run_out_repeat_within_their_split_only() {
    // Spinning clips have the fewest descriptions: 11 backgrounds x 2 lights x 7 colours x 4 shapes x 3 sizes
    // x 4 fills x 2 senses = 14,784.
    let spins = |split| {
        let clips = (0..6000).map(move |k| SceneId { form: Form::Clip, split, number: 8 * k + 3 }.index());
        clips.map(|index| clip(&CONFIG, index)).collect::<Vec<_>>()
    };
    let [train, val, test] = [Split::Train, Split::Val, Split::Test].map(|split| spins(split).into_iter().collect());
    let distinct: HashSet<ClipScene> = train;
    assert_eq!(distinct.len(), 14_784 / 3);
    let (val, test): (HashSet<ClipScene>, HashSet<ClipScene>) = (val, test);
    assert!(distinct.is_disjoint(&val) && distinct.is_disjoint(&test) && val.is_disjoint(&test));
}

#[test]
fn a_scene_depends_on_seed_and_index_alone() {
    let small = SceneConfig { train: 10, val: 3, test: 3, ..CONFIG };
    let (few, many) = (scenes::dataset(&small), scenes::dataset(&CONFIG));
    let by_name: HashMap<&str, usize> = many.images.iter().enumerate().map(|(i, m)| (m.name.as_str(), i)).collect();
    for (i, image) in few.images.iter().enumerate() {
        let other = by_name[image.name.as_str()];
        assert_eq!(*image, many.images[other]);
        for k in 0..5 {
            assert_eq!(few.captions[5 * i + k].text, many.captions[5 * other + k].text);
        }
        assert_eq!(scenes::render(&small, index(&few, i)), scenes::render(&CONFIG, index(&many, other)));
    }
    let reseeded = SceneConfig { seed: 6, ..small };
    let changed = (0..16).filter(|&i| scenes::render(&small, 6 * i) != scenes::render(&reseeded, 6 * i)).count();
    assert_eq!(changed, 16);
}

#[test]
fn an_index_and_its_scene_name_each_other() {
    for index in 0..1000 {
        assert_eq!(SceneId::from_index(index).index(), index);
    }
}

#[test]
fn pictures_have_the_size_asked_for() {
    for size in [0, 1, 7, 64, 224] {
        let config = SceneConfig { size, ..CONFIG };
        for number in 0..14 {
            let rgb = scenes::render(&config, 6 * number);
            assert_eq!((rgb.width, rgb.height, rgb.pixels.len()), (size, size, 3 * size * size));
        }
    }
}

#[test]
fn every_attribute_occurs() {
    let dataset = scenes::dataset(&CONFIG);
    let all: Vec<Scene> = (0..dataset.images.len()).map(|i| picture(&CONFIG, index(&dataset, i))).collect();
    let objects: HashSet<Object> = all.iter().flat_map(|scene| scene.objects.iter().copied()).collect();
    let count = |key: &dyn Fn(&Object) -> usize| objects.iter().map(key).collect::<HashSet<_>>().len();
    assert_eq!(count(&|object| object.shape as usize), Shape::ALL.len());
    assert_eq!(count(&|object| object.colour as usize), Colour::ALL.len());
    assert_eq!(count(&|object| object.fill as usize), Fill::ALL.len());
    let backgrounds: HashSet<Background> = all.iter().map(|scene| scene.background).collect();
    assert_eq!(backgrounds.len(), Background::ALL.len());
    let numbers: HashSet<usize> = all.iter().map(|scene| scene.objects.len()).collect();
    assert_eq!(numbers, HashSet::from([1, 2, 3, 4]));
    let texts: HashSet<&str> = dataset.captions.iter().map(|caption| caption.text.as_str()).collect();
    assert!(texts.len() * 100 > dataset.captions.len() * 97, "{} captions are different", texts.len());
}

/// The colours that a caption names, in order.
fn colours(words: &[String]) -> Vec<Colour> {
    let named = |word: &String| Colour::ALL.iter().copied().find(|colour| colour.names().contains(&word.as_str()));
    words.iter().filter_map(named).collect()
}

/// The shapes that a caption names in the singular or plural, in order.
fn shapes(words: &[String]) -> Vec<Shape> {
    let is = |shape: &Shape, word: &str| {
        let last = |name: &str| name.rsplit(' ').next() == Some(word);
        shape.names().iter().any(|(one, many)| last(one) || last(many))
    };
    words.iter().filter_map(|word| Shape::ALL.iter().copied().find(|shape| is(shape, word))).collect()
}

/// Every colour and shape that is named is there, as a pair.
fn assert_objects_exist(caption: &str, objects: &[Object]) {
    let words = words(caption);
    let (colours, shapes) = (colours(&words), shapes(&words));
    assert!(!colours.is_empty() && colours.len() == shapes.len(), "{caption}: {colours:?} {shapes:?}");
    for (&colour, &shape) in colours.iter().zip(&shapes) {
        assert!(objects.iter().any(|o| (o.colour, o.shape) == (colour, shape)), "{caption}: {objects:?}");
    }
}

/// Size and fill words are true of some object; those of no object do not occur.
fn assert_adjectives_hold(caption: &str, objects: &[Object]) {
    use covmatch::data::scenes::attributes::Size;
    let words = words(caption);
    let says = |word: &str| words.iter().any(|other| other == word);
    for &size in Size::ALL {
        let there = objects.iter().any(|object| object.size == size);
        assert!(there || !size.names().iter().any(|name| says(name)), "{caption}: {objects:?}");
    }
    for &fill in Fill::ALL.iter().filter(|fill| **fill != Fill::Outlined) {
        let there = objects.iter().any(|object| object.fill == fill);
        let said = fill.adjectives().iter().chain(fill.endings()).any(|name| caption.contains(name));
        assert!(there || !said, "{caption}: {objects:?}");
    }
}

#[test]
fn captions_name_objects_that_are_there() {
    for number in 0..1400 {
        let pictures = SceneId { form: Form::Picture, split: Split::Val, number }.index();
        let scene = picture(&CONFIG, pictures);
        for caption in scenes::captions(&CONFIG, pictures) {
            assert_objects_exist(&caption, &scene.objects);
            assert_adjectives_hold(&caption, &scene.objects);
            let dark = Light::Dim.phrases().iter().any(|phrase| caption.contains(phrase));
            assert!(!dark || scene.light == Light::Dim, "{caption}");
        }
        let clips = SceneId { form: Form::Clip, split: Split::Val, number }.index();
        let scene = clip(&CONFIG, clips);
        scenes::captions(&CONFIG, clips).iter().for_each(|caption| assert_objects_exist(caption, &scene.objects));
    }
}

#[test]
fn captions_speak_of_their_own_background_only() {
    for number in 0..700 {
        let index = 6 * number;
        let scene = picture(&CONFIG, index);
        for caption in scenes::captions(&CONFIG, index) {
            let text = caption.to_lowercase();
            let own = scene.background.grounds().iter().chain(scene.background.places());
            let mentions_own = own.clone().any(|phrase| text.contains(phrase));
            for other in Background::ALL.iter().filter(|other| **other != scene.background) {
                let phrases = other.grounds().iter().filter(|phrase| text.contains(**phrase)).count();
                assert!(phrases == 0, "{caption}: {:?}", scene.background);
            }
            assert!(mentions_own || !text.contains("background"), "{caption}");
        }
    }
}

#[test]
fn counts_are_right() {
    let numbers = [("two", 2), ("three", 3), ("four", 4)];
    let mut checked = 0;
    for number in 0..1400 {
        let scene = picture(&CONFIG, 6 * number);
        for caption in scenes::captions(&CONFIG, 6 * number) {
            let words = words(&caption);
            for (i, word) in words.iter().enumerate() {
                let Some(&(_, n)) = numbers.iter().find(|(name, _)| name == word) else { continue };
                let equal = scene.objects.iter().filter(|object| **object == scene.objects[0]).count();
                let all = words.get(i + 1).is_some_and(|next| next == "shapes");
                assert_eq!(n, if all { scene.objects.len() } else { equal }, "{caption}");
                checked += 1;
            }
        }
    }
    assert!(checked > 1000, "{checked}");
}

/// The objects of a scene that a caption's first two (colour, shape) pairs name, at their places.
fn first_two<'a>(part: &[String], rest: &[String], placed: &'a [Placed]) -> Option<(Vec<&'a Placed>, Vec<&'a Placed>)> {
    let find = |words: &[String], last: bool| {
        let (colours, shapes) = (colours(words), shapes(words));
        let at = if last { colours.len().checked_sub(1)? } else { 0 };
        let (colour, shape) = (*colours.get(at)?, *shapes.get(at)?);
        Some(placed.iter().filter(|p| (p.object.colour, p.object.shape) == (colour, shape)).collect())
    };
    Some((find(part, true)?, find(rest, false)?))
}

#[test]
fn relations_hold_for_the_places_in_the_picture() {
    let relations: [(&[&str], Direction); 6] = [
        (&["left", "of"], Direction::Left),
        (&["left", "side", "of"], Direction::Left),
        (&["right", "of"], Direction::Right),
        (&["right", "side", "of"], Direction::Right),
        (&["above"], Direction::Up),
        (&["below"], Direction::Down),
    ];
    let mut checked = 0;
    for number in 0..2100 {
        let scene = picture(&CONFIG, 6 * number);
        if !matches!(scene.arrangement, Arrangement::Side(_) | Arrangement::Beside(_)) {
            continue;
        }
        let placed = scenes::places(&CONFIG, 6 * number, 1).swap_remove(0);
        for caption in scenes::captions(&CONFIG, 6 * number) {
            let words = words(&caption);
            for (phrase, direction) in relations {
                let Some(at) = words.windows(phrase.len()).position(|window| window == phrase) else { continue };
                let (subject, object) = first_two(&words[..at], &words[at..], &placed).expect("two objects");
                let (dx, dy) = direction.step();
                let ahead = |p: &Placed| p.x * dx + p.y * dy;
                let holds = subject.iter().all(|s| object.iter().all(|o| ahead(s) > ahead(o) + 0.1));
                assert!(holds && !subject.is_empty() && !object.is_empty(), "{caption}: {placed:?}");
                checked += 1;
            }
        }
    }
    assert!(checked > 500, "{checked}");
}

#[test]
fn inner_and_near_objects_lie_where_the_arrangement_says() {
    for number in 0..2100 {
        let scene = picture(&CONFIG, 6 * number);
        let placed = scenes::places(&CONFIG, 6 * number, 1).swap_remove(0);
        let distance = |a: &Placed, b: &Placed| ((a.x - b.x).powi(2) + (a.y - b.y).powi(2)).sqrt();
        match scene.arrangement {
            Arrangement::Inside => {
                assert!(distance(&placed[0], &placed[1]) + placed[0].radius < placed[1].radius, "{placed:?}");
            }
            Arrangement::Front => {
                let apart = distance(&placed[0], &placed[1]);
                assert!(apart < placed[0].radius + placed[1].radius && apart > 0.1, "{placed:?}");
            }
            Arrangement::Line(axis) => {
                let along = |p: &Placed| if axis == Axis::Across { p.x } else { p.y };
                assert!(placed.windows(2).all(|pair| along(&pair[0]) + 0.2 < along(&pair[1])), "{placed:?}");
            }
            _ => {}
        }
        for p in &placed {
            let inside = |v: f32| v - 0.7 * p.radius > 0.0 && v + 0.7 * p.radius < 1.0;
            assert!(inside(p.x) && inside(p.y), "{p:?} is cut off");
        }
    }
}

/// A point of a shape that is surely filled, in parts of its radius.
fn filled_point(shape: Shape) -> (f32, f32) {
    match shape {
        Shape::Ring => (0.66, 0.0),
        Shape::Crescent => (-0.45, 0.0),
        _ => (0.0, 0.05),
    }
}

#[test]
fn plain_objects_have_their_colour_in_the_picture() {
    let (mut right, mut seen) = (0, 0);
    for number in 0..2100 {
        let scene = picture(&CONFIG, 6 * number);
        if scene.light == Light::Dim || scene.objects[0].fill != Fill::Plain {
            continue;
        }
        let rgb = scenes::render(&CONFIG, 6 * number);
        let first = scenes::places(&CONFIG, 6 * number, 1)[0][0];
        let (dx, dy) = filled_point(first.object.shape);
        let (x, y) = (((first.x + dx * first.radius) * 64.0) as usize, ((first.y + dy * first.radius) * 64.0) as usize);
        let pixel = &rgb.pixels[(y * 64 + x) * 3..][..3];
        let distance =
            |colour: Colour| -> f32 { colour.rgb().iter().zip(pixel).map(|(a, &b)| (a - f32::from(b)).powi(2)).sum() };
        let nearest = Colour::ALL.iter().copied().min_by(|&a, &b| distance(a).total_cmp(&distance(b))).unwrap();
        right += usize::from(nearest == first.object.colour);
        seen += 1;
    }
    assert!(seen > 200 && right * 100 >= seen * 98, "{right} of {seen}");
}

#[test]
fn objects_stand_out_from_their_background() {
    for number in 0..700 {
        let scene = picture(&CONFIG, 6 * number);
        let clashes = scene.background.clashes();
        assert!(scene.objects.iter().all(|object| !clashes.contains(&object.colour)));
    }
}

#[test]
fn clips_move_as_their_description_says() {
    for number in 0..800 {
        let index = SceneId { form: Form::Clip, split: Split::Train, number }.index();
        let scene = clip(&CONFIG, index);
        let frames = scenes::places(&CONFIG, index, 4);
        let (start, end) = (&frames[0], &frames[3]);
        let shift = |i: usize| (end[i].x - start[i].x, end[i].y - start[i].y);
        let ahead = |i: usize, direction: Direction| {
            let ((x, y), (dx, dy)) = (shift(i), direction.step());
            x * dx + y * dy
        };
        let rests = |i: usize| shift(i) == (0.0, 0.0);
        match scene.motion {
            Motion::Move(direction, _) => assert!(ahead(0, direction) > 0.15),
            Motion::Past(direction) => assert!(ahead(0, direction) > 0.4 && rests(1)),
            Motion::Near(_, direction) => assert!(ahead(0, direction) > 0.15 && rests(1)),
            Motion::Spin(sense) => {
                let turn = end[0].angle - start[0].angle;
                assert_eq!(turn > 0.0, sense == Sense::Clockwise);
            }
            Motion::Resize(change) => {
                assert_eq!(end[0].radius > start[0].radius, change == Change::Grows);
                assert!((end[0].radius / start[0].radius).ln().abs() > 0.6 && end[1].radius == start[1].radius);
            }
            Motion::Show(presence) => assert_eq!(end[0].radius > start[0].radius, presence == Presence::Appears),
            Motion::Meet(meeting, axis) => {
                let along = |p: &Placed| if axis == Axis::Across { p.x } else { p.y };
                assert!(along(&start[0]) < along(&start[1]));
                assert_eq!(along(&end[0]) < along(&end[1]), meeting == Meeting::Collide);
            }
            Motion::Follow(direction) => {
                assert!(ahead(0, direction) > 0.2 && ahead(1, direction) > 0.2);
                let (dx, dy) = direction.step();
                assert!((start[1].x - start[0].x) * dx + (start[1].y - start[0].y) * dy > 0.1);
            }
        }
        let pictures = scenes::render_clip(&CONFIG, index, 4);
        assert_eq!(pictures.len(), 4);
        assert!(pictures[0] != pictures[3] && pictures[0] != pictures[1] || matches!(scene.motion, Motion::Show(_)));
    }
}

#[test]
fn an_object_that_is_not_there_leaves_no_trace() {
    // Frames before it appears (or after it is gone) are all the same picture, and so are those while it is there.
    for number in (0..50).map(|k| 8 * k + 5) {
        let index = SceneId { form: Form::Clip, split: Split::Test, number }.index();
        let frames = scenes::render_clip(&CONFIG, index, 4);
        assert!(frames[0] == frames[1] && frames[2] == frames[3] && frames[1] != frames[2]);
        let places = scenes::places(&CONFIG, index, 4);
        assert!(places[0][0].radius == 0.0 || places[3][0].radius == 0.0);
    }
}

#[test]
fn a_turn_is_not_mistaken_for_its_opposite_between_four_frames() {
    // A triangle looks the same after 120 degrees: a step must stay below 60.
    let index = (0..).map(|k| SceneId { form: Form::Clip, split: Split::Train, number: 8 * k + 3 }.index());
    for index in index.take(50) {
        let frames = scenes::places(&CONFIG, index, 4);
        let step = (frames[1][0].angle - frames[0][0].angle).abs().to_degrees();
        assert!((20.0..60.0).contains(&step), "{step}");
    }
}
