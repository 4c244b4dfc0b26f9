//! Clips: a few frames, evenly spaced, from a video file or from a folder that holds its frames.
//!
//! A clip of `n` frames is cut into [`FRAMES`] equal parts and the middle frame of each is taken: frame
//! `floor((2 i + 1) n / (2 FRAMES))`, as loaders of WebVid do at test time. Video files are read through the system's
//! `ffprobe` (how many frames) and `ffmpeg` (their pixels); only local files are opened, whatever a playlist asks for.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::decode::Limits;
use super::{DataError, RgbImage};

/// Frames of a clip that an encoder sees.
pub const FRAMES: usize = 4;

/// The positions of `wanted` evenly spaced frames among `available`; frames repeat when there are too few.
pub fn evenly_spaced(available: usize, wanted: usize) -> Vec<usize> {
    (0..wanted).map(|i| (2 * i + 1) * available / (2 * wanted)).collect()
}

/// Whether a file name is that of a video.
pub fn is_video(path: &Path) -> bool {
    const VIDEOS: [&str; 10] = ["mp4", "m4v", "mov", "mkv", "webm", "avi", "mpg", "mpeg", "wmv", "flv"];
    has_extension(path, &VIDEOS)
}

/// Whether a file name is that of an image.
pub fn is_picture(path: &Path) -> bool {
    has_extension(path, &["jpg", "jpeg", "png", "webp", "bmp", "gif"])
}

fn has_extension(path: &Path, known: &[&str]) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    known.iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Evenly spaced frames of a folder, from the names of the images in it: they are put in order by the numbers in their
/// names (`2.jpg` before `10.jpg`).
pub fn choose_frames(mut names: Vec<PathBuf>) -> Vec<PathBuf> {
    names.retain(|name| is_picture(name));
    names.sort_by_cached_key(|name| natural_key(&name.to_string_lossy()));
    if names.is_empty() {
        return names;
    }
    evenly_spaced(names.len(), FRAMES).into_iter().map(|i| names[i].clone()).collect()
}

/// A sort key in which runs of digits compare as numbers.
fn natural_key(name: &str) -> Vec<(u64, String)> {
    let mut key = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (before, digits) = rest.split_at(text);
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        key.push((0, before.to_string()));
        key.push((digits[..end].parse().unwrap_or(u64::MAX), digits[..end].to_string()));
        rest = &digits[end..];
    }
    key
}

/// [`FRAMES`] evenly spaced frames of a video file.
pub fn read_clip(path: &Path, limits: &Limits) -> Result<Vec<RgbImage>, DataError> {
    let wanted = evenly_spaced(count_frames(path)?, FRAMES);
    let mut distinct = wanted.clone();
    distinct.dedup();
    let pictures = extract(path, &distinct, limits)?;
    if pictures.len() != distinct.len() {
        return Err(clip_error(path, format!("only {} of {} frames can be decoded", pictures.len(), distinct.len())));
    }
    let position = |frame: &usize| distinct.iter().position(|d| d == frame).unwrap_or_default();
    Ok(wanted.iter().map(|frame| pictures[position(frame)].clone()).collect())
}

/// The number of frames of a video file, by counting packets: nothing is decoded.
fn count_frames(path: &Path) -> Result<usize, DataError> {
    let mut probe = Command::new("ffprobe");
    probe.args(["-v", "error", "-protocol_whitelist", "file", "-select_streams", "v:0", "-count_packets"]);
    probe.args(["-show_entries", "stream=nb_read_packets", "-of", "csv=p=0"]).arg(local(path));
    let output = run(probe, "ffprobe", path)?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.trim().trim_end_matches(',').parse() {
        Ok(0) | Err(_) => Err(clip_error(path, "it holds no video frames".to_string())),
        Ok(count) => Ok(count),
    }
}

/// The pixels of the frames at the given positions, in order.
fn extract(path: &Path, positions: &[usize], limits: &Limits) -> Result<Vec<RgbImage>, DataError> {
    let chosen: Vec<String> = positions.iter().map(|n| format!("eq(n,{n})")).collect();
    // Time stamps are renumbered: a constant frame rate would otherwise fill the gaps with copies.
    let filter = format!("select='{}',setpts=N/FRAME_RATE/TB", chosen.join("+"));
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-v", "error", "-nostdin", "-protocol_whitelist", "file", "-i"]).arg(local(path));
    ffmpeg.args(["-map", "0:v:0", "-vf", &filter, "-frames:v", &positions.len().to_string()]);
    ffmpeg.args(["-f", "image2pipe", "-c:v", "ppm", "-pix_fmt", "rgb24", "pipe:1"]);
    let output = run(ffmpeg, "ffmpeg", path)?;
    let mut pictures = Vec::new();
    let mut rest = output.stdout.as_slice();
    while !rest.is_empty() {
        let (picture, after) = portable_pixmap(path, rest, limits)?;
        pictures.push(picture);
        rest = after;
    }
    Ok(pictures)
}

/// A name that ffmpeg takes for a file, not for an option or the address of a stream.
fn local(path: &Path) -> std::ffi::OsString {
    let mut name = std::ffi::OsString::from("file:");
    name.push(path);
    name
}

/// Runs a program of ffmpeg and returns what it wrote.
fn run(mut command: Command, program: &'static str, path: &Path) -> Result<Output, DataError> {
    let output = command.output().map_err(|cause| match cause.kind() {
        std::io::ErrorKind::NotFound => DataError::NoFfmpeg { clip: path.display().to_string(), program },
        _ => clip_error(path, format!("{program} cannot be run: {cause}")),
    })?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(clip_error(path, format!("{program} failed: {}", last.trim())))
}

/// One `P6` picture at the start of `bytes`, and what follows it.
fn portable_pixmap<'a>(path: &Path, bytes: &'a [u8], limits: &Limits) -> Result<(RgbImage, &'a [u8]), DataError> {
    let broken = || clip_error(path, "ffmpeg wrote an incomplete frame".to_string());
    let mut header = bytes.splitn(4, |&b| b == b'\n'); // "P6", "width height", "255", pixels
    let (Some(b"P6"), Some(size), Some(b"255"), Some(body)) =
        (header.next(), header.next(), header.next(), header.next())
    else {
        return Err(broken());
    };
    let mut sizes = std::str::from_utf8(size).unwrap_or_default().split(' ').map(str::parse::<u32>);
    let (Some(Ok(width)), Some(Ok(height))) = (sizes.next(), sizes.next()) else { return Err(broken()) };
    limits.check(&path.display().to_string(), width, height)?;
    let (width, height) = (width as usize, height as usize);
    let (pixels, rest) = body.split_at_checked(width * height * 3).ok_or_else(broken)?;
    Ok((RgbImage { width, height, pixels: pixels.to_vec() }, rest))
}

fn clip_error(path: &Path, cause: String) -> DataError {
    DataError::Clip { clip: path.display().to_string(), cause }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn the_middle_frame_of_each_quarter_is_taken() {
        assert_eq!(evenly_spaced(4, 4), [0, 1, 2, 3]);
        assert_eq!(evenly_spaced(8, 4), [1, 3, 5, 7]);
        assert_eq!(evenly_spaced(100, 4), [12, 37, 62, 87]);
    }

    #[test]
    fn frames_repeat_when_a_clip_is_short() {
        assert_eq!(evenly_spaced(1, 4), [0, 0, 0, 0]);
        assert_eq!(evenly_spaced(2, 4), [0, 0, 1, 1]);
    }

    #[test]
    fn frames_are_ordered_by_their_numbers() {
        let names = ["frame_10.jpg", "frame_9.jpg", "notes.txt", "frame_2.jpg", "frame_1.jpg"];
        let chosen = choose_frames(names.iter().map(PathBuf::from).collect());
        assert_eq!(chosen, ["frame_1.jpg", "frame_2.jpg", "frame_9.jpg", "frame_10.jpg"].map(PathBuf::from));
    }

    #[test]
    fn a_pixmap_that_is_cut_short_is_an_error() {
        let path = Path::new("clip.mp4");
        let whole = b"P6\n2 1\n255\n\n23456";
        let (picture, rest) = portable_pixmap(path, whole, &Limits::default()).unwrap();
        assert_eq!((picture.width, picture.height, picture.pixels.as_slice(), rest.len()), (2, 1, &b"\n23456"[..], 0));
        let error = portable_pixmap(path, &whole[..14], &Limits::default()).unwrap_err();
        assert!(error.to_string().contains("clip.mp4"), "{error}");
    }
}
