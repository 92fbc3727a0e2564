"""One scale: 0 is the background, 1 the ink, and the order survives print and colour blindness."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from saccade.lens.colours import contrast, difference_ramp, from_oklab, ramp, theme, to_oklab
from saccade.lens.figures.artists import colormap

# Deuteranopia on linear RGB (Machado, Oliveira & Fernandes 2009, severity 1).
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)


def luminance(colours: np.ndarray) -> np.ndarray:
    """Of sRGB, as WCAG defines it."""
    return linear(colours) @ np.array([0.2126, 0.7152, 0.0722])


def linear(colours: np.ndarray) -> np.ndarray:
    return np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)


def as_seen_without_green(colours: np.ndarray) -> np.ndarray:
    """In OKLab, what deuteranopia leaves of the colours."""
    return to_oklab(np.clip(linear(colours) @ DEUTERANOPIA.T, 0, 1) ** (1 / 2.2))


def test_oklab_of_known_colours() -> None:
    white, red = to_oklab(np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]))
    np.testing.assert_allclose(white, [1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(red, [0.62796, 0.22486, 0.12585], atol=1e-4)  # Ottosson 2020


def test_oklab_and_back() -> None:
    colours = np.random.default_rng(0).random((7, 5, 3))
    np.testing.assert_allclose(from_oklab(to_oklab(colours)), colours, atol=1e-6)


@pytest.mark.parametrize("dark", [False, True])
def test_the_ends_are_background_and_ink(dark: bool) -> None:
    background, ink = ramp([0.0, 1.0], dark=dark)
    np.testing.assert_allclose(background, to_rgb(theme(dark).background), atol=1e-6)
    np.testing.assert_allclose(ink, to_rgb(theme(dark).ink), atol=1e-6)
    bright, dim = sorted([luminance(background), luminance(ink)], reverse=True)
    assert (bright + 0.05) / (dim + 0.05) > 15  # contrast


@pytest.mark.parametrize("dark", [False, True])
def test_equal_steps_look_equal(dark: bool) -> None:
    steps = np.diff(to_oklab(ramp(np.linspace(0, 1, 101), dark=dark))[:, 0])
    np.testing.assert_allclose(steps, steps.mean(), rtol=0.02)  # a screen has no bright saturated blue


@pytest.mark.parametrize("dark", [False, True])
def test_weights_past_one_are_ink(dark: bool) -> None:
    np.testing.assert_array_equal(ramp([1.7, -0.2], dark=dark), ramp([1.0, 0.0], dark=dark))


@pytest.mark.parametrize("dark", [False, True])
def test_differences_meet_at_the_background(dark: bool) -> None:
    np.testing.assert_allclose(difference_ramp(0.0, dark=dark), to_rgb(theme(dark).background), atol=1e-6)
    lightness = to_oklab(difference_ramp(np.linspace(-1, 1, 41), dark=dark))[:, 0]
    away = -1 if not dark else 1
    assert (np.sign(np.diff(lightness[20:])) == away).all()
    assert (np.sign(np.diff(lightness[:21])) == -away).all()
    assert abs(lightness[0] - lightness[-1]) < 0.02  # neither sign looks stronger than the other


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [0.2, 0.5, 1.0])
def test_the_sign_of_a_difference_is_seen_without_green(dark: bool, size: float) -> None:
    up, down = as_seen_without_green(difference_ramp([size, -size], dark=dark))
    assert np.linalg.norm(up - down) > 0.15 * size


@pytest.mark.parametrize("dark", [False, True])
def test_the_colormaps_are_the_ramps(dark: bool) -> None:
    np.testing.assert_allclose(colormap(dark=dark)(np.array([0.0, 1.0]))[:, :3], ramp([0.0, 1.0], dark=dark))
    middle = colormap(dark=dark, differences=True)(0.5)
    np.testing.assert_allclose(middle[:3], to_rgb(theme(dark).background), atol=1e-6)


def test_contrast_is_that_of_the_guidelines() -> None:
    assert contrast("#000000", "#ffffff") == contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # just below the 4.5 that text needs
    for dark in (False, True):
        assert contrast(theme(dark).text, theme(dark).background) > 7
