//! 8-bit colours to the numbers that an encoder was trained on: `(x / 255 - mean) / std`, one plane a channel.
//!
//! A channel has 256 possible values, so the formula is evaluated once for each, in the order of operations of
//! torchvision's `ToTensor` and `Normalize`: results are equal to the last bit.

/// Order of the colours in dimension 1 of the pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelOrder {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
}

/// How a network wants its pixels: colours in 0..1, put in `order`, become `(x - mean) / std`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalization {
    /// Order of the colours.
    pub order: ChannelOrder,
    /// Mean of each channel, in that order.
    pub mean: [f32; 3],
    /// Divisor of each channel, in that order.
    pub std: [f32; 3],
}

impl Normalization {
    /// CLIP's statistics, which the protocol uses with every encoder.
    pub const CLIP: Self = Self {
        order: ChannelOrder::Rgb,
        mean: [0.481_454_66, 0.457_827_5, 0.408_210_73],
        std: [0.268_629_54, 0.261_302_6, 0.275_777_1],
    };
    /// ImageNet's statistics, as torchvision and most of timm use them.
    pub const IMAGENET: Self =
        Self { order: ChannelOrder::Rgb, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };
    /// -1..1.
    pub const HALF: Self = Self { order: ChannelOrder::Rgb, mean: [0.5; 3], std: [0.5; 3] };
    /// `(x - 127) / 128` of colours in 0..255.
    pub const EFFICIENTNET_LITE: Self =
        Self { order: ChannelOrder::Rgb, mean: [127.0 / 255.0; 3], std: [128.0 / 255.0; 3] };
    /// Colours in 0..255 as blue, green, red, minus their ImageNet means (Caffe's convention).
    pub const CAFFE: Self = Self {
        order: ChannelOrder::Bgr,
        mean: [103.939 / 255.0, 116.779 / 255.0, 123.68 / 255.0],
        std: [1.0 / 255.0; 3],
    };
}

impl Default for Normalization {
    fn default() -> Self {
        Self::CLIP
    }
}

/// The value of every colour of every channel.
#[derive(Clone, Debug)]
pub(super) struct Normalizer {
    /// By colour, in the order red, green, blue.
    tables: Box<[[f32; 256]; 3]>,
    order: ChannelOrder,
}

impl Normalizer {
    pub(super) fn new(normalization: &Normalization) -> Self {
        let Normalization { order, mean, std } = *normalization;
        let table = |colour: usize| -> [f32; 256] {
            let channel = channel_of(colour, order);
            std::array::from_fn(|value| (value as f32 / 255.0 - mean[channel]) / std[channel])
        };
        Self { tables: Box::new(std::array::from_fn(table)), order }
    }

    /// Writes interleaved red, green and blue into one plane a channel.
    pub(super) fn apply(&self, pixels: &[u8], planes: [&mut [f32]; 3]) {
        let [mut first, second, mut third] = planes;
        if self.order == ChannelOrder::Bgr {
            std::mem::swap(&mut first, &mut third);
        }
        let [red, green, blue] = &*self.tables;
        let outputs = first.iter_mut().zip(second.iter_mut()).zip(third.iter_mut());
        for (&[r, g, b], ((x, y), z)) in pixels.as_chunks::<3>().0.iter().zip(outputs) {
            *x = red[usize::from(r)];
            *y = green[usize::from(g)];
            *z = blue[usize::from(b)];
        }
    }
}

fn channel_of(colour: usize, order: ChannelOrder) -> usize {
    match order {
        ChannelOrder::Rgb => colour,
        ChannelOrder::Bgr => 2 - colour,
    }
}
