"""Where in the user's files something was called: the innermost frame that is neither torch's nor ours."""
import os
import sys
import sysconfig

import torch

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARY = sysconfig.get_paths()["stdlib"] + os.sep
_PACKAGES = sorted({sysconfig.get_paths()[key] + os.sep for key in ("purelib", "platlib")})


class Sites:
    """Names frames "folder/file.py:12", relative to `root`: the same on every machine.

    Files elsewhere are named by their path in the installed packages, or by the file's name alone.
    """

    def __init__(self, root):
        self._root = os.path.abspath(root) + os.sep
        self._names = {}

    def file_name(self, path):
        """None for a file that is torch's, Python's or ours."""
        if path not in self._names:
            self._names[path] = self._named(path)
        return self._names[path]

    def _named(self, path):
        full = os.path.abspath(path)
        if path.startswith("<") or full.startswith((_TORCH, _OWN)):
            return None
        if full.startswith(self._root):
            return full[len(self._root):].replace(os.sep, "/")
        for folder in _PACKAGES:
            if full.startswith(folder):
                return full[len(folder):].replace(os.sep, "/")
        return None if full.startswith(_LIBRARY) else os.path.basename(full)

    def look(self, marked_code):
        """(site, mark): the innermost user's frame, and the outermost frame that runs `marked_code`.

        Where there is such a frame, the site is that of its caller: a region is named by the line that enters it.
        """
        site = mark = None
        frame = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            if code is marked_code:
                site, mark = None, frame
            elif site is None:
                name = self.file_name(code.co_filename)
                if name is not None:
                    site = f"{name}:{frame.f_lineno}"
            frame = frame.f_back
        return site, mark
