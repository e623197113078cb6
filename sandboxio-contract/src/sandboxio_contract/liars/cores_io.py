"""Deliberately broken cores about files and streams; see `sandboxio_contract.liars.cores`."""

from sandboxio import downloading
from sandboxio.command_files import CommandFiles
from sandboxio.files import Files
from sandboxio.process import Process

from sandboxio_contract.liars import faults_io
from sandboxio_contract.liars.broken import BrokenCore

IO: tuple[BrokenCore, ...] = (
    BrokenCore(
        "core-overlooks",
        "hidden files are not listed",
        ((CommandFiles, "list", faults_io.visible),),
        {"FIL-01"},
    ),
    BrokenCore(
        "core-levels",
        "a program that is uploaded is none any more",
        ((CommandFiles, "write", faults_io.plain),),
        {"FIL-01"},
    ),
    BrokenCore(
        "core-tolerates",
        "making a directory that exists is no error",
        ((CommandFiles, "mkdir", faults_io.tolerant),),
        {"FIL-01"},
    ),
    BrokenCore(
        "core-links",
        "every link of a download is taken",
        ((downloading, "inner_link", faults_io.any_link),),
        {"FIL-03"},
    ),
    BrokenCore(
        "core-nods",
        "a file can be written that has no name",
        ((Files, "write", faults_io.nodding),),
        {"FIL-01"},
    ),
    BrokenCore(
        "core-translates",
        "text is read with other line ends than it has",
        ((Files, "read_text", faults_io.translated),),
        {"FIL-01"},
    ),
    BrokenCore(
        "core-believes",
        "a link that leads nowhere is taken for what it names",
        ((Files, "exists", faults_io.believing),),
        {"FIL-01"},
    ),
    BrokenCore(
        "core-drinks",
        "a device is read as an empty file",
        ((CommandFiles, "read", faults_io.nothing_there),),
        {"FIL-01"},
    ),
    BrokenCore(
        "core-quarrels",
        "who reads a stream beside another gets an error of nobody's",
        ((Process, "_only_consumer", faults_io.quarrelling),),
        {"STR-01"},
    ),
    BrokenCore(
        "core-uncounted",
        "what nobody read of a stream is not counted",
        ((Process, "wait", faults_io.uncounted),),
        {"STR-01"},
    ),
)
