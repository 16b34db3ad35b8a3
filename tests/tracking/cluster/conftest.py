"""A small run that is compared on one machine and on a cluster."""

from __future__ import annotations

import pytest
from toys import random_fod

import napari_tractography as nt


@pytest.fixture(scope="session")
def parameters() -> nt.TrackingParameters:
    return nt.TrackingParameters(step_mm=0.5, max_length_mm=20.0, min_amplitude=0.02)


@pytest.fixture(scope="session")
def fod() -> nt.Fod:
    return random_fod(6, shape=(6, 6, 6))


@pytest.fixture(scope="session")
def seeds(fod: nt.Fod) -> nt.Seeds:
    return nt.Seeds.from_fod(fod, 3000)


@pytest.fixture(scope="session")
def here(fod: nt.Fod, seeds: nt.Seeds, parameters: nt.TrackingParameters) -> nt.Tractogram:
    """What one machine tracks."""
    return nt.track(fod, seeds, parameters, backend="cpu")
