"""Writes small datasets in every format that covmatch reads, and a listing of what is in them.

    pip install datasets webdataset pycocotools pillow numpy
    python python/goldens/data_sources.py

The datasets are written by, or read back through, the libraries that own the formats: parquet by Hugging Face
`datasets`, image folders read back by it, shards written and read back by `webdataset`, COCO's layout read back by
`pycocotools`, CSV by Python's `csv`, images by PIL. `listing.json` holds what those libraries see: names, splits,
captions, and the 64-bit FNV-1a hash of `PIL.Image.convert("RGB")`'s pixels. All pictures are drawn here.
"""

import csv
import io
import json
import shutil
import struct
import tarfile
import zlib
from pathlib import Path

import datasets
import numpy as np
import webdataset
from PIL import Image, ImageOps
from pycocotools.coco import COCO

OUT = Path(__file__).resolve().parents[2] / "crates/covmatch/tests/fixtures/data"
SPLITS = ["train", "train", "val", "test"]
COLOURS = ["red", "green", "blue", "yellow", "white", "purple"]


def picture(number: int, width: int = 24, height: int = 16) -> Image.Image:
    """A coloured rectangle on a gradient, different for every number."""
    y, x = np.mgrid[0:height, 0:width]
    pixels = np.stack([x * 255 // width, y * 255 // height, (x + y + 40 * number) % 256], axis=-1)
    left, top = 2 + number % 7, 2 + number % 5
    pixels[top : top + 6, left : left + 9] = [(number * 67) % 256, (number * 131) % 256, (number * 29) % 256]
    return Image.fromarray(pixels.astype(np.uint8))


def captions(number: int, count: int) -> list[str]:
    colour = COLOURS[number % len(COLOURS)]
    forms = [
        f"A {colour} box, seen from the front.",
        f'The sign says "{colour}" in café no. {number}',
        f"{colour.capitalize()} & bright -- what's that?",
        f"one {colour} thing;  two shadows",
        f"Ein {colour}es Rechteck über Grün 🙂",
        f"box {number}",
    ]
    return [forms[(number + i) % len(forms)] for i in range(count)]


def png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def fnv1a64(data: bytes) -> str:
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def pixels_hash(image: Image.Image) -> str:
    rgb = image.convert("RGB")
    return fnv1a64(f"{rgb.width}x{rgb.height}:".encode() + rgb.tobytes())


def fresh(name: str) -> Path:
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def save(folder: Path, name: str, number: int) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(picture(number)))


def row(name: str, split: str, texts: list[str], image: Image.Image) -> dict:
    return {"name": name, "split": split, "captions": texts, "pixels": pixels_hash(image)}


def dump(path: Path, value) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def karpathy() -> list[dict]:
    """Karpathy's layout for COCO (`filepath`, `restval`); the images lie in a tar archive below a common folder."""
    folder = fresh("karpathy")
    entries, rows = [], []
    with tarfile.open(folder / "pictures.tar", "w", format=tarfile.GNU_FORMAT) as tar:
        for number, split in enumerate(["train", "restval", "val", "test", "train"]):
            place = "val2014" if split != "train" else "train2014"
            filename, texts = f"COCO_{place}_{number:012d}.png", captions(number, 5 if number else 6)
            if number == 4:  # a name too long for the old header: GNU tar's long name
                filename = "n" * 120 + ".png"
            data = png(picture(number))
            info = tarfile.TarInfo(f"pictures/{place}/{filename}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
            sentences = [{"raw": text, "tokens": text.split(), "imgid": number} for text in texts]
            entries.append({"filepath": place, "filename": filename, "imgid": number, "split": split,
                            "sentences": sentences, "cocoid": 100 + number})
            split = "train" if split == "restval" else split
            rows.append(row(f"{place}/{filename}", split, texts, picture(number)))
    dump(folder / "dataset_tiny.json", {"images": entries, "dataset": "tiny"})
    return rows


def blip() -> list[dict]:
    """One entry a caption to train on, one entry an image to evaluate on."""
    folder = fresh("blip")
    lists, rows = {"train": [], "val": [], "test": []}, []
    for number, split in enumerate(SPLITS):
        name, texts = f"tiny-images/{number}.png", captions(number, 5)
        save(folder, name, number)
        if split == "train":
            lists[split] += [{"image": name, "caption": text, "image_id": f"tiny_{number}"} for text in texts]
        else:
            lists[split].append({"image": name, "caption": texts})
        rows.append(row(name, split, texts, picture(number)))
    for split, entries in lists.items():
        dump(folder / f"tiny_{split}.json", entries)
    return sorted(rows, key=lambda r: ["test", "train", "val"].index(r["split"]))  # files by name


def coco() -> list[dict]:
    """COCO's folders; the captions are shuffled, and pycocotools joins them to the images."""
    folder = fresh("coco")
    rows, number = [], 0
    for part, split in [("train2014", "train"), ("val2014", "val")]:
        images, annotations = [], []
        for _ in range(3):
            name = f"COCO_{part}_{number:012d}.png"
            save(folder, f"{part}/{name}", number)
            images.append({"license": 1, "file_name": name, "height": 16, "width": 24, "id": 300 + number})
            for index, text in enumerate(captions(number, 2 + number % 3)):
                annotations.append({"image_id": 300 + number, "id": 1000 * index + number, "caption": text})
            number += 1
        annotations.sort(key=lambda a: a["id"])
        path = folder / f"annotations/captions_{part}.json"
        dump(path, {"info": {"year": 2014}, "images": images, "licenses": [], "annotations": annotations})
        api = COCO(str(path))
        for image in api.loadImgs([image["id"] for image in images]):
            texts = [a["caption"] for a in api.loadAnns(api.getAnnIds(imgIds=image["id"]))]
            name = f"{part}/{image['file_name']}"
            rows.append(row(name, split, texts, Image.open(folder / name)))
    return rows


def flickr_token() -> list[dict]:
    folder = fresh("flickr_token")
    lines, lists, rows = [], {"train": [], "dev": [], "test": []}, []
    for number, split in enumerate(SPLITS):
        name, texts = f"{number}_a.png", captions(number, 5)
        save(folder / "Images", name, number)
        lines += [f"{name}#{index}\t{text}" for index, text in enumerate(texts)]
        lists["dev" if split == "val" else split].append(name)
        rows.append(row(name, split, texts, picture(number)))
    (folder / "Tiny.token.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for split, names in lists.items():
        (folder / f"Tiny.{split}Images.txt").write_text("\n".join(names) + "\n")
    return rows


def tables() -> dict[str, list[dict]]:
    """The same pairs as CSV by Python's csv module, as TSV, and as Flickr8k's text files."""
    folder = fresh("table")
    rows = []
    for number, split in enumerate(SPLITS):
        save(folder / "pictures", f"{number}.png", number)
        rows.append(row(f"{number}.png", split, captions(number, 3), picture(number)))
    flat = [(r["name"], text, r["split"]) for r in rows for text in r["captions"]]
    with open(folder / "pairs.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["split", "caption", "image"])
        writer.writerows([(split, text, name) for name, text, split in flat])
    (folder / "pairs.tsv").write_text(
        "image\tcaption\tsplit\n" + "".join(f"{n}\t{t}\t{s}\n" for n, t, s in flat), encoding="utf-8")
    (folder / "bare.tsv").write_text("".join(f"{n}\t{t}\t{s}\n" for n, t, s in flat), encoding="utf-8")
    for split in ["train", "val", "test"]:
        lines = [f"{n},{t}\n" for n, t, s in flat if s == split]
        (folder / f"tiny_{split}_karpathy.txt").write_text("image,caption\n" + "".join(lines), encoding="utf-8")
    return {"table": rows}


def image_folder() -> list[dict]:
    """Split folders with `metadata.jsonl`, read back by Hugging Face datasets."""
    folder = fresh("image_folder")
    number = 0
    for split, count in [("train", 3), ("validation", 2), ("test", 1)]:
        lines = []
        for index in range(count):
            name = f"sub/{index}.png" if index else f"{index}.png"
            save(folder / split, name, number)
            lines.append(json.dumps({"file_name": name, "text": captions(number, 1)[0]}, ensure_ascii=False))
            number += 1
        (folder / split / "metadata.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = []
    loaded = datasets.load_dataset("imagefolder", data_dir=str(folder))
    for split, ours in [("test", "test"), ("train", "train"), ("validation", "val")]:
        bare = loaded[split].cast_column("image", datasets.Image(decode=False))
        found = []
        for entry, decoded in zip(bare, loaded[split]):
            name = str(Path(entry["image"]["path"]).relative_to(folder))
            found.append(row(name, ours, [entry["text"]], decoded["image"]))
        rows += found
    return rows


def shards() -> list[dict]:
    """WebDataset shards by its own writer: captions as text, and as JSON with several."""
    folder = fresh("webdataset")
    number = 0
    for split, count in [("train", 4), ("val", 1), ("test", 2)]:
        with webdataset.ShardWriter(str(folder / f"{split}-%06d.tar"), maxcount=2, verbose=0, mtime=0) as writer:
            for index in range(count):
                sample = {"__key__": f"{split}/{index:04d}", "png": png(picture(number))}
                if number % 2:
                    sample["json"] = {"caption": captions(number, 3), "number": number}
                else:
                    sample["txt"] = captions(number, 1)[0]
                writer.write(sample)
                number += 1
    rows = []
    for path in sorted(folder.glob("*.tar")):
        reader = webdataset.WebDataset(str(path), shardshuffle=False).decode("pilrgb")
        for sample in reader:
            texts = [sample["txt"]] if "txt" in sample else sample["json"]["caption"]
            name = f"{path.name}/{sample['__key__']}.png"
            rows.append(row(name, path.name.split("-")[0], texts, sample["png"]))
    return rows


def parquet() -> list[dict]:
    """Hugging Face parquet: one file with a caption a row, one with a list of captions; several row groups."""
    folder = fresh("parquet")
    number, rows = 0, []
    image_feature = datasets.Image(decode=False)
    for split, ours, listed in [("test", "test", True), ("train", "train", False), ("validation", "val", True)]:
        count = 7 if split == "train" else 2
        data = {"image": [], "caption": [], "id": []}
        for index in range(count):
            texts = captions(number, 3 if listed else 1)
            data["image"].append({"bytes": png(picture(number)), "path": f"{index}.png" if index % 3 else None})
            data["caption"].append(texts if listed else texts[0])
            data["id"].append(number)
            number += 1
        text = datasets.Value("string")
        features = datasets.Features({"image": image_feature, "id": datasets.Value("int64"),
                                      "caption": datasets.Sequence(text) if listed else text})
        path = folder / f"data/{split}-00000-of-00001.parquet"
        path.parent.mkdir(exist_ok=True)
        datasets.Dataset.from_dict(data, features=features).to_parquet(path, batch_size=3)
        loaded = datasets.load_dataset("parquet", data_files=str(path), split="train")
        for index, (entry, bare) in enumerate(zip(loaded.cast_column("image", datasets.Image()),
                                                  loaded.cast_column("image", image_feature))):
            name = f"{path.name}#{index}" + (f"/{bare['image']['path']}" if bare["image"]["path"] else "")
            texts = entry["caption"] if listed else [entry["caption"]]
            rows.append(row(name, ours, list(texts), entry["image"]))
    return rows


def sixteen_bit_png(values: np.ndarray, colour_type: int) -> bytes:
    """PIL cannot write 16-bit colour, so the chunks are put together here."""
    height, width = values.shape[:2]
    lines = b"".join(b"\0" + line.astype(">u2").tobytes() for line in values)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 16, colour_type, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def decode() -> list[dict]:
    """Images in every mode, each with the pixels that PIL gives, as a PNG."""
    folder = fresh("decode")
    rows = []
    base = picture(3, 48, 32)
    alpha = Image.fromarray((np.indices((32, 48)).sum(axis=0) * 3 % 256).astype(np.uint8))
    rgba, gray_alpha = base.copy(), base.convert("L")
    rgba.putalpha(alpha)
    gray_alpha.putalpha(alpha)

    def add(name: str, expected: Image.Image | None = None, lossy: bool = False) -> None:
        expected = Image.open(folder / name) if expected is None else expected
        expected = expected.convert("RGB")
        stored = f"{Path(name).name}.expected.png"
        expected.save(folder / stored)
        rows.append({"file": name, "expected": stored, "lossy": lossy, "width": expected.width,
                     "height": expected.height, "pixels": pixels_hash(expected)})

    for name, image, options in [
        ("rgb.png", base, {}),
        ("rgba.png", rgba, {}),
        ("gray.png", base.convert("L"), {}),
        ("gray_alpha.png", gray_alpha, {}),
        ("bilevel.png", base.convert("1"), {}),
        ("palette.png", base.quantize(16), {}),
        ("palette_transparent.png", base.quantize(16), {"transparency": 3}),
        ("rgb_transparent.png", base, {"transparency": (0, 0, 120)}),
        ("rgb.bmp", base, {}),
        ("palette.bmp", base.quantize(16), {}),
        ("palette.gif", base.quantize(16), {}),
        ("lossless.webp", base, {"lossless": True}),
        ("alpha.webp", rgba, {"lossless": True, "exact": True}),
    ]:
        image.save(folder / name, **options)
        add(name)
    first, second = base.quantize(16), picture(5, 48, 32).quantize(16)
    first.save(folder / "animated.gif", save_all=True, append_images=[second])
    add("animated.gif", Image.open(folder / "animated.gif"))

    rng = np.random.default_rng(0)
    deep = (np.asarray(base).astype(np.uint16) << 8) | rng.integers(0, 256, (32, 48, 3), dtype=np.uint16)
    (folder / "rgb16.png").write_bytes(sixteen_bit_png(deep, 2))
    add("rgb16.png")
    with_alpha = np.concatenate([deep, deep[:, :, :1]], axis=-1)
    (folder / "rgba16.png").write_bytes(sixteen_bit_png(with_alpha, 6))
    add("rgba16.png")
    # PIL clips 16-bit grayscale at 255; the high byte is what a viewer shows.
    (folder / "gray16.png").write_bytes(sixteen_bit_png(deep[:, :, :1], 0))
    add("gray16.png", Image.fromarray((deep[:, :, 0] >> 8).astype(np.uint8)))
    (folder / "gray_alpha16.png").write_bytes(sixteen_bit_png(deep[:, :, :2], 4))
    add("gray_alpha16.png", Image.fromarray((deep[:, :, 0] >> 8).astype(np.uint8)))

    smooth = base.resize((96, 64), Image.Resampling.BICUBIC)
    for name, image, options in [
        ("444.jpg", smooth, {"subsampling": 0, "quality": 92}),
        ("420.jpg", smooth, {"subsampling": 2, "quality": 92}),
        ("422.jpg", smooth, {"subsampling": 1, "quality": 92}),
        ("progressive.jpg", smooth, {"progressive": True, "quality": 92}),
        ("gray.jpg", smooth.convert("L"), {"quality": 92}),
        ("cmyk.jpg", smooth.convert("CMYK"), {"quality": 95}),
        ("lossy.webp", smooth, {"quality": 92}),
    ]:
        image.save(folder / name, **options)
        add(name, lossy=True)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        name = f"exif{orientation}.jpg"
        smooth.save(folder / name, exif=exif, quality=92, subsampling=0)
        add(name, ImageOps.exif_transpose(Image.open(folder / name)), lossy=True)
    exif = Image.Exif()
    exif[0x0112] = 6
    base.save(folder / "exif6.png", exif=exif)
    add("exif6.png", ImageOps.exif_transpose(Image.open(folder / "exif6.png")))
    return rows


def clips() -> list[dict]:
    """Folders of frames; the listing says which four of them are taken: the middle of each quarter."""
    folder = fresh("clips")
    rows, lines = [], []
    for clip, count in [("walk", 11), ("jump", 3)]:
        for frame in range(count):
            save(folder / "frames" / clip, f"{frame + 1}.png", 10 * count + frame)
        chosen = [(2 * i + 1) * count // 8 for i in range(4)]
        frames = [pixels_hash(picture(10 * count + frame)) for frame in chosen]
        rows.append({"name": clip, "split": "train", "captions": [f"a short {clip}"], "frames": frames})
        lines.append(f"{clip},a short {clip}\n")
    (folder / "clips.csv").write_text("video,caption\n" + "".join(lines))
    return rows


def main() -> None:
    datasets.disable_progress_bars()
    listing = {
        "karpathy": karpathy(),
        "blip": blip(),
        "coco": coco(),
        "flickr_token": flickr_token(),
        **tables(),
        "image_folder": image_folder(),
        "webdataset": shards(),
        "parquet": parquet(),
        "decode": decode(),
        "clips": clips(),
    }
    (OUT / "listing.json").write_text(json.dumps(listing, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    total = sum(path.stat().st_size for path in OUT.rglob("*") if path.is_file())
    print(f"wrote {OUT}: {total / 1024:.0f} KB")


if __name__ == "__main__":
    main()
