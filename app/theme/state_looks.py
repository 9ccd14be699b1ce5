"""What each risk, verdict, health and cell state looks like: word, painted shape, colours. Pure data.

Every state has all three of word, shape and colour, so that it survives a grey-scale print. A word is only
coloured when the state needs a person; a cell is only tinted when something is happening or went wrong.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StateLook:
    """How one state is shown; `color`, `word_color` and `tint` are token names, no tint when empty."""

    word: str
    glyph: str
    color: str
    word_color: str = "text2"
    tint: str = ""

    @property
    def turning(self) -> bool:
        """True when the shape moves while the state lasts."""
        return self.glyph == "ring"


RISKS: dict[str, StateLook] = {
    "low": StateLook("Low", "circle", "low", "low", "low_tint"),
    "medium": StateLook("Medium", "triangle", "medium", "medium", "medium_tint"),
    "high": StateLook("High", "diamond", "high", "high", "high_tint"),
    "critical": StateLook("Critical", "octagon", "critical", "critical", "critical_fill"),
}
RISK_ORDER = ("low", "medium", "high", "critical")

VERDICTS: dict[str, StateLook] = {
    "confirmed": StateLook("confirmed", "check_disc", "ok"),
    "unverified": StateLook("unverified", "check_ring", "text2"),
    "no_effect": StateLook("no effect", "minus_ring", "warn", "warn", "warn_tint"),
    "refused": StateLook("refused", "cancel", "fail", "fail", "fail_tint"),
    "unknown": StateLook("unknown", "help_rhombus", "unknown", "unknown", "unknown_tint"),
    "cancelled": StateLook("cancelled", "stop_ring", "text3"),
    "failed": StateLook("failed", "cross_octagon", "fail", "fail", "fail_tint"),
}

CELLS: dict[str, StateLook] = VERDICTS | {
    "waiting": StateLook("waits for you", "sand", "waiting", "waiting", "waiting_tint"),
    "running": StateLook("running", "ring", "accent", "text", "accent_tint"),
    "retrying": StateLook("tried again", "sync", "warn", "warn", "warn_tint"),
    "paused": StateLook("paused", "pause", "warn", "warn", "warn_tint"),
    "queued": StateLook("queued", "dot", "text3"),
    "not_started": StateLook("not started", "dot", "text3"),
    "skipped": StateLook("skipped", "step_over", "text3"),
    "no_such_tool": StateLook("no such tool", "minus", "text3"),
    "cancel_asked": StateLook("cancel asked", "stop_ring", "warn", "warn", "warn_tint"),
    "interrupted": StateLook("interrupted", "pause", "fail", "fail", "fail_tint"),
    "done": StateLook("done", "check_disc", "ok"),
    # Not what was observed of the step's own command.
    "done_by_hand": StateLook("done by hand", "check_ring", "text2"),
    "recovered": StateLook("recovered", "check_ring", "text2"),
    "done_before": StateLook("done before", "check_ring", "text2"),
}

PLANS: dict[str, StateLook] = {
    "runs": StateLook("runs", "check", "ok"),
    "asks": StateLook("asks", "sand", "waiting", "waiting"),
    "denied": StateLook("denied", "cancel", "fail", "fail"),
    "not_known": StateLook("not known yet", "help_rhombus", "unknown", "unknown"),
    "no_such_tool": StateLook("no such tool", "minus", "text3"),
}

HEALTHS: dict[str, StateLook] = {
    "online": StateLook("Online", "circle", "ok"),
    "busy": StateLook("Busy", "slice", "accent"),
    "stale": StateLook("Stale", "half", "warn", "warn"),
    "reconnecting": StateLook("Reconnecting", "sync", "warn", "warn"),
    "offline": StateLook("Offline", "circle_off", "text3", "text3"),
}

# Of MCP servers that devices host.
SERVERS: dict[str, StateLook] = {
    "starting": StateLook("starting", "ring", "accent", "text", "accent_tint"),
    "ready": StateLook("ready", "circle", "ok"),
    "restarting": StateLook("restarting", "sync", "warn", "warn"),
    "failed": StateLook("failed", "cross_octagon", "fail", "fail"),
    "off": StateLook("switched off", "circle_off", "text3", "text3"),
}


def risk_look(risk: str) -> StateLook:
    """The look of a risk word; an unknown word counts as high."""
    return RISKS.get(risk.lower(), RISKS["high"])


def cell_look(state: str) -> StateLook:
    """The look of a verdict or cell state; a word that is not in the list is shown as it is, as unknown."""
    known = CELLS.get(state.lower().replace(" ", "_"))
    return known or StateLook(state, "help_rhombus", "unknown", "unknown", "unknown_tint")


def health_look(health: str) -> StateLook:
    """The look of a health word; one that is not in the list is shown as it is, quietly."""
    return HEALTHS.get(health.lower()) or StateLook(health, "circle_off", "text3", "text3")


def plan_look(state: str) -> StateLook:
    """The look of a plan's answer; one that is not in the list is shown as not known."""
    return PLANS.get(state.lower().replace(" ", "_")) or StateLook(
        state, "help_rhombus", "unknown", "unknown"
    )


def server_look(state: str) -> StateLook:
    """The look of a hosted server's state; one that is not in the list is shown as it is, as unknown."""
    return SERVERS.get(state.lower()) or StateLook(state, "help_rhombus", "unknown", "unknown")
