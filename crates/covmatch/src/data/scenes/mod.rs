//! `scenes`: a dataset of our own, drawn and worded by this library. Nothing is downloaded.
//!
//! A scene is one to four objects (12 shapes, 10 colours, 3 sizes, 4 fills) in one of seven arrangements (alone, in a
//! group, side by side, inside, in front of, beside a group, in line) on one of eleven backgrounds, with shadows,
//! light from some side and small marks that no caption mentions. Five captions a scene come from a small grammar.
//! A clip is the same with motion, and captions that need it.
//!
//! ```text
//! index -> description (attributes, distinct by construction) -> captions (grammar)
//!                      \-> places (layout, or motion at a time) + look -> picture (signed distances)
//! ```
//! Scene `i` is a function of (seed, `i`) alone, to the byte: asking for more pictures changes none of the others. No
//! two splits share a description; see [`description`].

pub mod attributes;
mod background;
mod captions;
mod chance;
pub mod clip;
pub mod description;
mod draw;
mod grammar;
mod layout;
mod look;
mod math;
mod permutation;
mod shape;

use serde::{Deserialize, Serialize};

use self::clip::ClipScene;
use self::description::Scene;
use self::draw::Canvas;
pub use self::layout::Placed;
use self::look::Look;
use super::{Caption, Dataset, Image, Location, RgbImage, Split};
use crate::engine::Seed;

/// Which scenes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SceneConfig {
    /// Another seed gives other scenes.
    pub seed: u64,
    /// Scenes to learn from.
    pub train: usize,
    /// Scenes for choosing between settings.
    pub val: usize,
    /// Scenes for reporting.
    pub test: usize,
    /// Width and height of a picture in pixels.
    pub size: usize,
}

impl Default for SceneConfig {
    fn default() -> Self {
        Self { seed: 0, train: 6000, val: 1000, test: 1000, size: 64 }
    }
}

/// Whether a scene stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// It does.
    Picture,
    /// It moves.
    Clip,
}

/// Which scene [`Location::Scene`] means: `index = 6 number + 2 split + form`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SceneId {
    /// Picture or clip.
    pub form: Form,
    /// Its split.
    pub split: Split,
    /// Its number within the split.
    pub number: u64,
}

impl SceneId {
    /// The scene of an index; every index has one.
    pub fn from_index(index: u64) -> Self {
        let form = if index.is_multiple_of(2) { Form::Picture } else { Form::Clip };
        let split = [Split::Train, Split::Val, Split::Test][(index / 2 % 3) as usize];
        Self { form, split, number: index / 6 }
    }

    /// The index of the scene.
    pub fn index(self) -> u64 {
        6 * self.number + 2 * self.split_number() + u64::from(self.form == Form::Clip)
    }

    fn split_number(self) -> u64 {
        match self.split {
            Split::Train => 0,
            Split::Val => 1,
            Split::Test => 2,
        }
    }
}

/// What a scene shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Description {
    /// It stands still.
    Picture(Scene),
    /// It moves.
    Clip(ClipScene),
}

/// All pictures of `config`, with five captions each.
pub fn dataset(config: &SceneConfig) -> Dataset {
    collect(config, Form::Picture)
}

/// All clips of `config`, with five captions each.
pub fn clips(config: &SceneConfig) -> Dataset {
    collect(config, Form::Clip)
}

fn collect(config: &SceneConfig, form: Form) -> Dataset {
    let mut dataset = Dataset::default();
    let splits =
        [(Split::Train, "train", config.train), (Split::Val, "val", config.val), (Split::Test, "test", config.test)];
    let kind = match form {
        Form::Picture => "scene",
        Form::Clip => "clip",
    };
    for (split, split_name, count) in splits {
        for number in 0..count as u64 {
            let index = SceneId { form, split, number }.index();
            let image = dataset.images.len() as u32;
            let name = format!("{kind}-{split_name}-{number:06}");
            dataset.images.push(Image { name, location: Location::Scene(index), split });
            let captions = captions(config, index);
            dataset.captions.extend(captions.into_iter().map(|text| Caption { text, image }));
        }
    }
    dataset
}

/// What scene `index` shows.
pub fn describe(config: &SceneConfig, index: u64) -> Description {
    let id = SceneId::from_index(index);
    match id.form {
        Form::Picture => Description::Picture(Scene::new(config.seed, id.split_number(), id.number)),
        Form::Clip => Description::Clip(ClipScene::new(config.seed, id.split_number(), id.number)),
    }
}

/// The five captions of scene `index`, all different.
pub fn captions(config: &SceneConfig, index: u64) -> [String; 5] {
    let mut stream = Seed(config.seed).stream("scenes.captions", index);
    match describe(config, index) {
        Description::Picture(scene) => captions::captions(&scene, &mut stream),
        Description::Clip(scene) => clip::captions(&scene, &mut stream),
    }
}

/// Scene `index` as a picture; of a clip, the frame at half time.
pub fn render(config: &SceneConfig, index: u64) -> RgbImage {
    frames_at(config, index, &[0.5]).swap_remove(0)
}

/// Scene `index` as `frames` pictures evenly spaced from its first moment to its last; a picture stands still.
pub fn render_clip(config: &SceneConfig, index: u64, frames: usize) -> Vec<RgbImage> {
    frames_at(config, index, &times(frames))
}

/// Places of the objects of scene `index` in each of `frames` frames, in the order of its description.
pub fn places(config: &SceneConfig, index: u64, frames: usize) -> Vec<Vec<Placed>> {
    places_at(config, index, &describe(config, index), &times(frames))
}

/// `frames` moments from 0 to 1.
fn times(frames: usize) -> Vec<f32> {
    match frames {
        1 => vec![0.5],
        _ => (0..frames).map(|frame| frame as f32 / (frames - 1) as f32).collect(),
    }
}

fn places_at(config: &SceneConfig, index: u64, description: &Description, times: &[f32]) -> Vec<Vec<Placed>> {
    let mut stream = Seed(config.seed).stream("scenes.places", index);
    match description {
        Description::Picture(scene) => vec![layout::layout(scene, &mut stream); times.len()],
        Description::Clip(scene) => clip::places(scene, times, &mut stream),
    }
}

/// The scene at each of `times`.
fn frames_at(config: &SceneConfig, index: u64, times: &[f32]) -> Vec<RgbImage> {
    let description = describe(config, index);
    let (background, light) = match &description {
        Description::Picture(scene) => (scene.background, scene.light),
        Description::Clip(scene) => (scene.background, scene.light),
    };
    let look = Look::new(&mut Seed(config.seed).stream("scenes.look", index));
    let empty = Canvas::new(config.size, background, &look);
    let frame = |placed: &Vec<Placed>| {
        let mut canvas = empty.clone();
        canvas.objects(placed, &look);
        canvas.finish(light, &look)
    };
    places_at(config, index, &description, times).iter().map(frame).collect()
}
