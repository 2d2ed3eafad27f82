"""XML with a DOCTYPE, or in an encoding that could hide one, is refused before it is parsed."""

from __future__ import annotations

from pathlib import Path

import pytest

from plueckernet.errors import FormatError
from plueckernet.io.source import Source
from plueckernet.io.xml_safety import check_xml, check_xml_bytes

DOCTYPE = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]>'


def source_of(path: Path, content: bytes) -> Source:
    path.write_bytes(content)
    return Source(path)


def test_the_line_of_a_doctype_is_named(tmp_path: Path) -> None:
    text = '<?xml version="1.0"?>\n' + "<!-- long -->\n" * 200_000 + DOCTYPE + "<a>&x;</a>"
    with pytest.raises(FormatError, match="DOCTYPE") as caught:
        check_xml(source_of(tmp_path / "a.xml", text.encode()))
    assert caught.value.line == 200_002


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_a_doctype_across_pieces_is_seen(tmp_path: Path, size: int) -> None:
    data = (f"<?xml version='1.0' encoding='UTF-8'?>{' ' * 2000}\n" + DOCTYPE + "<a/>").encode()
    pieces = (data[start : start + size] for start in range(0, len(data), size))
    with pytest.raises(FormatError, match="DOCTYPE") as caught:
        check_xml_bytes(pieces, Source(tmp_path / "a.xml"))
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("name", "codec"), [("UTF-16", "utf-16"), ("UTF-16", "utf-16-be"), ("UTF-32", "utf-32-le"), ("ibm037", "cp037")]
)
def test_encodings_that_hide_a_doctype_are_refused(tmp_path: Path, name: str, codec: str) -> None:
    text = f'<?xml version="1.0" encoding="{name}"?>{DOCTYPE}<a/>'
    with pytest.raises(FormatError, match=r"UTF-8|not XML"):
        check_xml(source_of(tmp_path / "a.xml", text.encode(codec)))


def test_an_encoding_that_is_switched_after_its_declaration_is_refused(tmp_path: Path) -> None:
    content = b'<?xml version="1.0" encoding="cp037"?>' + f"{DOCTYPE}<a/>".encode("cp037")
    with pytest.raises(FormatError, match="encoding 'cp037'"):
        check_xml(source_of(tmp_path / "a.xml", content))


@pytest.mark.parametrize("name", ["UTF-8", "utf8", "ISO-8859-1", "windows-1252", "US-ASCII"])
def test_ordinary_xml_passes(tmp_path: Path, name: str) -> None:
    check_xml(source_of(tmp_path / "a.xml", f'<?xml version="1.0" encoding="{name}"?>\n<a>text</a>'.encode()))
    check_xml(source_of(tmp_path / "b.xml", b"\xef\xbb\xbf<a/>"))
