import pytest

from credentials.credential_kit import Vault


@pytest.fixture
def vault(tmp_path) -> Vault:
    return Vault(tmp_path)
