"""The viewer: register two maps in the browser, check the pose, correct it by hand and export it; needs viser."""

from plueckernet.viewer.app import Viewer

__all__ = ["Viewer"]
