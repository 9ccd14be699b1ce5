"""How the tour signs, in the real sheet; and what another program changes meanwhile."""

from __future__ import annotations

from PySide6.QtWidgets import QAbstractButton

from app.signing.sign_dialog import SignDialog
from app.widgets.diff_view import DiffView
from tests.tour.context import PASSPHRASE, TourContext

SETTINGS = "settings.toml"
UI_ACTIONS = "ui_actions_on_this_computer = true\n"


async def sign(stage: TourContext, picture: str = "") -> None:
    """Press "Sign and apply" in the sheet that is open, after a picture of it where one is named."""
    hand = stage.hand
    await hand.until("the sheet is open", lambda: bool(_sheets(stage)))
    for difference in _sheets(stage)[0].findChildren(DiffView):
        # What is longer than its view is signed once its end was seen.
        difference.verticalScrollBar().setValue(difference.verticalScrollBar().maximum())
    button = await hand.find(QAbstractButton, "Sign and apply")
    if picture:
        await hand.look(picture)
    await hand.press("Sign and apply")
    await hand.until("the sheet is gone", lambda: not _is_open(stage, button))


def _sheets(stage: TourContext) -> list[SignDialog]:
    return [sheet for sheet in stage.hand.window.findChildren(SignDialog) if sheet.isVisible()]


def _is_open(stage: TourContext, button: QAbstractButton) -> bool:
    return any(sheet.sign is button for sheet in _sheets(stage))


async def accept_settings(stage: TourContext) -> None:
    """Another program writes into settings.toml: a banner says so, and it counts once it is signed.

    The tour's devices are processes on this computer whose screens are displays of their own, on which
    nothing can press Approve: so the click scene is allowed, from the next start of the service on.
    """
    hand, state = stage.hand, stage.desk.state
    path = stage.desk.keys.home.path / SETTINGS
    path.write_text(path.read_text("utf-8") + UI_ACTIONS, "utf-8")
    # With the key locked the window is a new client of the service, which tells it how things stand.
    await hand.press("Operator key: harbour unlocked")
    await hand.until("the banner is there", lambda: bool(state.policy and state.policy.pending_settings))
    await hand.press("Look and accept…")
    await hand.write("Passphrase of harbour", PASSPHRASE)
    await sign(stage, "sign-settings")
    await hand.until("it is accepted", lambda: bool(state.policy and not state.policy.pending_settings))


async def pending_policy(stage: TourContext) -> None:
    """Another program adds a rule to policy.toml: it loosens nothing until it is looked at and signed."""
    hand, state = stage.hand, stage.desk.state
    stage.desk.theme.set_mode("light")
    path = stage.desk.keys.home.policy
    rule = '\n[[rule]]\nid = "logs-may-go"\ndecision = "allow"\ntool = "shell_execute"\nrisk = "<=high"\n'
    rule += 'reason = "Written by another program"\n[rule.parameters.command]\npattern = "^rm .*log$"\n'
    path.write_text(path.read_text("utf-8") + rule, "utf-8")
    await _let_the_service_look(stage)
    await hand.until("the banner is there", lambda: bool(state.policy and state.policy.pending))
    await hand.press("Show in Settings")
    await hand.look("policy-pending")
    stage.desk.theme.set_mode("dark")
    await hand.press("Look and accept…")
    await sign(stage, "sign-policy")
    await hand.until("it is accepted", lambda: bool(state.policy and not state.policy.pending))


async def _let_the_service_look(stage: TourContext) -> None:
    """The service reads the policy again when it judges something."""
    await (await stage.agent()).devices.tools("this-computer")
