"""The viewer: two maps in the browser, registered, doubted, nudged and exported; needs viser."""

from plueckernet.viewer.app import Viewer

__all__ = ["Viewer"]
