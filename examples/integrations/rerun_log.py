"""Log a registration to Rerun: both maps, the pose, the inliers and their residuals.

Install with ``pip install plueckernet rerun-sdk``, then run ``python rerun_log.py SOURCE TARGET`` to see it in Rerun's
viewer, or add ``--save registration.rrd`` to open it later.
"""

import argparse

import numpy as np
import rerun as rr

import plueckernet as pn

SOURCE, TARGET = (251, 154, 85), (106, 165, 255)


def main() -> None:
    """Register two files and log the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--save", metavar="FILE.rrd", help="write a recording instead of opening the viewer")
    options = parser.parse_args()
    rr.init("plueckernet", spawn=options.save is None)
    if options.save is not None:
        rr.save(options.save)
    source, target = pn.read_lines(options.source), pn.read_lines(options.target)
    log_registration(source, target, pn.register(source, target))
    rr.disconnect()  # everything is written before the program ends


def log_registration(source: pn.LineSet, target: pn.LineSet, result: pn.RegistrationResult) -> None:
    """Log both maps in the target frame; the source moves there at the second step of the timeline."""
    rr.set_time("step", sequence=0)
    rr.log("target", rr.LineStrips3D(strips(target), colors=TARGET), static=True)
    rr.log("source", rr.LineStrips3D(strips(source), colors=SOURCE), static=True)
    rr.log("verdict", rr.TextLog(f"{result.status}, confidence {result.confidence:.3f}: {result.reason}"))
    pose = result.target_T_source
    if pose is None:
        return
    rr.set_time("step", sequence=1)
    rr.log("source", rr.Transform3D(translation=pose.translation.tolist(), mat3x3=pose.rotation.tolist()))
    inliers = (pose @ source)[result.inliers[:, 0]]
    labels = [f"{distance:.3g}, {angle:.2g}°" for distance, angle in result.residuals.tolist()]
    rr.log("inliers", rr.LineStrips3D(strips(inliers), colors=(45, 212, 191), labels=labels, show_labels=False))


def strips(lines: pn.LineSet) -> np.ndarray:
    """End points (n, 2, 3); infinite lines have none."""
    if lines.endpoints is None:
        raise SystemExit("these are infinite lines: Rerun draws segments")
    return lines.endpoints.numpy()


if __name__ == "__main__":
    main()
