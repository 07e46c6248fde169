"""GPT-NeoX (Pythia): the head sits inside the part that runs the layers and is taken out there."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from trainer_core.model.stack import LayerStack, shadow


class GptNeoxStack(LayerStack):
    """The stack of gpt_neox."""

    def hidden(self, ids: mx.array) -> mx.array:
        """See `LayerStack`."""
        if self.whole:
            return super().hidden(ids)
        with shadow(self._inner, "embed_out", _unchanged):
            return super().hidden(ids)

    def project(self, hidden: mx.array) -> mx.array:
        """See `LayerStack`."""
        return hidden if self.whole else self._inner.embed_out(hidden)

    def final(self, stream: mx.array) -> mx.array:
        """See `LayerStack`."""
        with shadow(self._inner, "embed_out", _unchanged):
            return super().final(stream)


def _unchanged(hidden: Any) -> Any:
    return hidden
