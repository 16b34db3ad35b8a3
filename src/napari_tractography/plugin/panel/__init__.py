"""The dock widget and what it is made of."""

from .panel import TractographyPanel as TractographyPanel
