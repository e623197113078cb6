"""The same sandboxes for synchronous code: `create_sync`, `connect_sync`, and what they return.

Everything runs in one loop in a thread of its own, started for the first sandbox and stopped after the last. Errors keep
their class and cause. What is still alive when the interpreter ends is killed then.
"""

from sandboxio.sync.creating import connect_sync, create_sync
from sandboxio.sync.files import SyncFileReader, SyncFiles, SyncFileWriter
from sandboxio.sync.process import SyncProcess
from sandboxio.sync.sandbox import SyncSandbox

__all__ = ["SyncFileReader", "SyncFileWriter", "SyncFiles", "SyncProcess", "SyncSandbox", "connect_sync", "create_sync"]
