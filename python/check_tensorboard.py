#!/usr/bin/env python3
"""What TensorBoard itself reads from a folder of event files.

    pip install tensorboard
    python python/check_tensorboard.py RUN/tensorboard

Prints, per tag: how many values, the last step and the last value. Ends with an error when there is no scalar.
"""

import argparse
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="the folder that holds events.out.tfevents.*")
    folder = parser.parse_args().folder
    events = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0}).Reload()
    tags = sorted(events.Tags()["scalars"])
    if not tags:
        sys.exit(f"{folder}: TensorBoard finds no scalar")
    for tag in tags:
        values = events.Scalars(tag)
        print(f"{tag}\t{len(values)} values\tlast step {values[-1].step}\tlast value {values[-1].value:.6g}")


if __name__ == "__main__":
    main()
