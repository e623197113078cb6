"""Every row of the contract, on asyncio and trio."""

from acme_sandboxio.planning import MANAGED, META
from sandboxio_contract import Contract
from sandboxio_contract.ground.docker import DockerGround

DSN = "dockercli://sandboxio-test/python?accept_vsock=1"
contract = Contract(DSN, ground=DockerGround(DSN, "dockercli", managed=MANAGED, metadata=META))
