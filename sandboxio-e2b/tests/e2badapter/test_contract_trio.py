"""Every row of the contract on trio, against the emulator."""

import pytest

from .judging import contract_on

pytestmark = [pytest.mark.network, pytest.mark.emulated]
contract = contract_on("trio")
