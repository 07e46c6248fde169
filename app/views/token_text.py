"""Tokens as tinted text: what is trained, what is only read, and what is cut off."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QColor, QHelpEvent, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QTextEdit, QToolTip, QWidget
from typing_extensions import override

from app.views.palette import Palette, mixed
from trainer_core.data.lens import Fate, LensToken

HEAD, TAIL = 3_000, 1_500
"""Tokens that are drawn of a very long row, from its start and its end."""

_WORDS = {Fate.READ: "read, not trained", Fate.TRAINED: "trained", Fate.CUT: "cut off"}
_VISIBLE = {"\n": "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}\n", "\t": "\N{RIGHTWARDS ARROW}\t"}


class TokenText(QTextEdit):
    """Read-only text in which every token has the tint of its fate."""

    def __init__(self, name: str, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setReadOnly(True)
        self.setAccessibleName(name)
        self.setProperty("role", "tokens")
        self._palette = palette
        self._tokens: Sequence[LensToken] = ()
        self._starts: list[int] = []
        self._drawn: list[LensToken] = []

    def show_tokens(self, tokens: Sequence[LensToken]) -> None:
        """Show these tokens."""
        self._tokens = tokens
        self._draw()

    def paint_with(self, palette: Palette) -> None:
        """Take the colours of a palette."""
        self._palette = palette
        self._draw()

    def token_at(self, position: int) -> LensToken | None:
        """The token at a place of the text."""
        place = bisect_right(self._starts, position) - 1
        return self._drawn[place] if 0 <= place < len(self._drawn) else None

    @override
    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            self._explain(event.pos(), event.globalPos())
            return True
        return super().event(event)

    def _explain(self, at: QPoint, where: QPoint) -> None:
        inside = self.viewport().mapFrom(self, at)
        token = self.token_at(self.cursorForPosition(inside).position())
        if token is None:
            QToolTip.hideText()
            return
        ids = ", ".join(map(str, token.ids))
        kind = "special token" if token.special else "token" if len(token.ids) == 1 else "tokens"
        QToolTip.showText(where, f"{kind} {ids}: {_WORDS[token.fate]}", self)

    def _draw(self) -> None:
        self.clear()
        self._starts, self._drawn = [], []
        formats = {
            (fate, odd, special): self._format(fate, odd, special)
            for fate in Fate
            for odd in (False, True)
            for special in (False, True)
        }
        cursor = self.textCursor()
        cursor.beginEditBlock()
        many = len(self._tokens) > HEAD + TAIL
        parts = (self._tokens[:HEAD], self._tokens[-TAIL:]) if many else (self._tokens,)
        for number, part in enumerate(parts):
            if number:
                left = len(self._tokens) - HEAD - TAIL
                cursor.insertText(f"\n  {left:,} more tokens  \n", QTextCharFormat())
            for place, token in enumerate(part):
                self._starts.append(cursor.position())
                self._drawn.append(token)
                text = "".join(_VISIBLE.get(c, c) for c in token.text) or "\N{OPEN BOX}"
                cursor.insertText(text, formats[token.fate, place % 2 == 1, token.special])
        cursor.endEditBlock()
        self.moveCursor(QTextCursor.MoveOperation.Start)

    def _format(self, fate: Fate, odd: bool, special: bool) -> QTextCharFormat:
        palette = self._palette
        made = QTextCharFormat()
        tint = {
            Fate.TRAINED: mixed(palette.curve_valid, palette.raised, 0.32 if odd else 0.22),
            Fate.READ: mixed(palette.muted, palette.raised, 0.10 if odd else 0.03),
            Fate.CUT: mixed(palette.danger, palette.raised, 0.16 if odd else 0.10),
        }[fate]
        made.setBackground(QColor(tint))
        made.setForeground(QColor(palette.text if fate is Fate.TRAINED else palette.muted))
        if special:
            made.setForeground(QColor(palette.accent))
            made.setFontItalic(True)
        if fate is Fate.CUT:
            made.setFontStrikeOut(True)
        return made
