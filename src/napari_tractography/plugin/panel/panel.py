"""The dock widget: choose an FOD, place seeds, set parameters, run, look at the result, save.

Built from the parameter descriptions. What a person sets goes to the :class:`Session`, Run and
Live to the :class:`RunControl`; their signals tell the panel what to show.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QEvent, Qt
from qtpy.QtGui import QShowEvent
from qtpy.QtWidgets import QApplication, QCheckBox, QComboBox, QWidget

from ...errors import TractographyError
from ...model.seeding_parameters import SEED_SOURCES, SeedingParameters
from ..flag import Flag
from ..layers.spheres import is_of_named_spheres
from ..listening import Listening
from ..main_window import main_window
from ..notices import show_error, show_warning
from ..session.filtering import Filtering
from ..session.listing import BundleList
from ..session.open_bundle import OpenBundle
from ..session.resections import Resections
from ..session.run_control import RunControl
from ..session.runs import Run
from ..session.seed_mouse import SeedMouse
from ..session.session import Session, let_go
from ..session.tracking_values import tracking_values_of
from ..space.extent import SlicesKept
from ..space.orientation_labels import name_axes
from ..space.views import keep_oriented, turn_first
from ..streamlines.colours import ONE_COLOUR, WEIGHT
from ..streamlines.layer import Streamlines
from ..streamlines.turning import fewer_while_turning
from ..timers import delayed
from ..words import in_words
from .bundle_list import BundleSection
from .display.appearance import AppearanceSection
from .display.pictures import Pictures
from .display.view import ViewSection
from .docks import PanelDocks, column, scrolled
from .keys import close_keys, open_keys
from .measure.cohort import TITLE as COHORT
from .measure.cohort import CohortSection
from .measure.section import MeasureSection
from .measure.sweep_dialog import SweepDialog
from .menus import ExportMenu, MoreMenu
from .project_button import ProjectButton
from .results import Results
from .save_button import SaveButton
from .sections.data import DataSection
from .sections.device import DeviceSection
from .sections.dissection import Dissection
from .sections.losses import Losses
from .sections.region import RegionSection
from .sections.seed import PLACED, WHOLE, SeedSection, next_step
from .sections.selection import SelectionSection
from .sections.tissue import TissueSection
from .sections.tracking import TrackingSection
from .settings import PanelSettings
from .status import say_position
from .widgets.busy_dialog import errors_shown
from .widgets.controls import IgnoreWheel, align, on_change, set_values, show_choice, values_of
from .widgets.dock_watch import DockWatch
from .widgets.layout import FOCUS_STYLE, Section, add_entry, button, row, stack
from .widgets.progress_row import ProgressRow
from .widgets.undo import UndoKeys, make_one_step_each

if TYPE_CHECKING:
    import napari

RUN_HELP = "Track from every seed, into the selected bundle."
COHORT_HELP = (
    "In which share of many subjects a place is reached from the same seeds, and who differs."
)
SWEEP_HELP = "Sweep a parameter: what each value gives, and where the answer is flat."
NOTHING_TO_TRACK = "These streamlines were opened from a file; make a new bundle to track one."


class TractographyPanel(QWidget):  # type: ignore[misc]
    """The tractography panel of one viewer.

    Parameters
    ----------
    viewer : napari.Viewer
    remember : bool
        Restore what was set the last time, and store what is set.

    Attributes
    ----------
    session : Session
        What the panel shows and changes.
    runs : RunControl
        Starts and ends the runs of the session.
    bundles : BundleList
        The bundles of the window, one of which the session shows.
    forms : list of QWidget
        Rows of labels and controls, aligned with each other.
    """

    def __init__(
        self, viewer: napari.viewer.Viewer, parent: QWidget | None = None, *, remember: bool = True
    ) -> None:
        super().__init__(parent)
        # napari gives plugins a proxy, whose layers are not the layers that events carry.
        self.viewer = viewer = getattr(viewer, "__wrapped__", viewer)
        self._remember = remember
        self.session = Session(viewer)
        self.runs = RunControl(self.session)
        self.bundles = BundleList(self.session)
        self.filtering = Filtering(self.session)
        self.mouse = SeedMouse(self.session, show_warning)
        self._slices = SlicesKept(viewer)
        self._undo_keys = UndoKeys(self, self.session.document)
        layers = viewer.layers.events
        self._listening = Listening(
            (layers.inserted, self._refresh_layers),
            (layers.removed, self._refresh_layers),
            (layers.reordered, self._refresh_layers),
            (layers.renamed, self._refresh_layers),
            (viewer.events.status, partial(say_position, self.session)),
            (QApplication.instance().focusChanged, self._undo_keys.on_focus),
        )
        self._attached = False
        self._align_later = delayed(self, 0, lambda: align(self.forms))
        self.is_showing = Flag()  # controls are set to what a bundle says, which is no act
        self._build()
        self._connect()
        self.settings = PanelSettings(self, keep=remember)
        self._sections = (
            self.data,
            self.scene,
            self.device,
            self.settings,
            self.selection,
            self.dissection,
            self.measure,
            self.regions,
            self.losses,
            self.tissues,
            self.appearance,
        )
        self.project.discarded.connect(self.settings.discard)
        self.open_session()
        self._dock_watch = DockWatch(self, opened=self.open_session, closed=self.close_session)

    # -- layout --------------------------------------------------------------------------------

    def _build(self) -> None:
        self.bundle_list = BundleSection(
            self.bundles, colour_chosen=self.set_colour, mirror=self.mirror
        )
        self.data = DataSection(self.session, self._on_fod_changed)
        self.seeds = SeedSection(self.session)
        self.regions = RegionSection(self.session, self.run_between)
        self.tissues = TissueSection(self.session)
        self.tracking = TrackingSection(
            self.session, lambda text: self.results.show_for_now(text), lambda: self.show_hint()
        )
        more = self.tracking.more_form
        self.forms = [self.seeds.form, self.regions.form, self.tracking.main_form, more]
        self.run_button = button("Run", RUN_HELP, self.run)
        cancel_help = "Stop tracking and keep what has arrived."
        self.cancel_button = button("Cancel", cancel_help, self.runs.cancel)
        self.cancel_button.setEnabled(False)
        self.live = QCheckBox("Live")
        self.live.setToolTip(
            "Track again whenever a seed or a parameter changes: a preview at once, all "
            "streamlines when nothing has changed for a moment."
        )
        self.results = Results(self.session, self.runs)
        self.save_button = SaveButton(self.session, self.bundles)
        self.save = self.save_button.save  # for scripts
        self.pictures = Pictures(self.viewer)
        self.pictures.setParent(self)
        self.export = ExportMenu(self.session, self.bundles, self.pictures)
        self.more = MoreMenu(self.session, self.bundles, self.data.add_fod)
        self.project = ProjectButton(self.bundles, keep=self._remember)
        self.indexing = ProgressRow(
            "An index of where the streamlines run, by which regions filter them at once.",
            "Make no index; regions do not filter then.",
        )
        add_entry(
            self.more.menu(),
            "Restore defaults",
            lambda: self.settings.restore_defaults(),
            "Set every control of the panel as it was at first; layers stay.",
        )
        self.scene = ViewSection(self.session, self.mouse)
        self.appearance = AppearanceSection(self.session)
        self.device = DeviceSection(self.session, self.runs)
        self.selection = SelectionSection(self.session)
        self.dissection = Dissection(self.bundles, self.filtering)
        self.losses = Losses(Resections(self.session, self.bundles))
        self.measure = MeasureSection(self.session, self.bundles, self.losses.resections)
        self.cohort = CohortSection(self.session, self.data)

        regions = Section("Regions", self.regions, self.losses, is_open=False)
        self.regions.inactive_added.connect(lambda: regions.header.setChecked(True))
        sections = [
            Section("Bundles", self.bundle_list, self.project.bar, self.indexing),
            Section("Data", self.data),
            Section("Seeds", self.seeds),
            regions,
            Section("Tissues", self.tissues, is_open=False),
            Section("Tracking", self.tracking),
            Section("More parameters", more, is_open=False),
            Section("Display", self.appearance, is_open=False),
            Section("Selection", self.selection, self.dissection, is_open=False),
            Section("Measure", self.measure, self.cohort, is_open=False),
            Section("View", self.scene, is_open=False),
            Section("Device", self.device, is_open=False),
        ]
        inside = column(sections)
        self.docks = PanelDocks(self, inside, sections, self._undo_keys.take)
        self.more.menu().addAction(self.docks.action)
        add_entry(self.more.menu(), f"{COHORT}...", self.ask_cohort, COHORT_HELP)
        add_entry(self.more.menu(), "How does it depend?...", self.ask_sweep, SWEEP_HELP)
        self.forms += [
            self.appearance.form,
            self.dissection.form,
            self.measure.form,
            self.scene.form,
            self.scene.slices.form,
            self.device.form,
        ]
        self._wheel = IgnoreWheel(self)
        self._wheel.watch(inside)
        for choice in inside.findChildren(QComboBox):
            choice.setMaxVisibleItems(24)
        make_one_step_each(inside, self.session.document)

        self._foot = QWidget()
        stack(
            self._foot,
            self.results,
            row(self.save_button, self.project, self.export, self.more),
            self.results.notice,
            self.results.progress,
            # Last, so that it stays where it is whatever is said above it.
            row(self.run_button, self.cancel_button, self.live),
        ).setContentsMargins(8, 4, 8, 6)
        stack(self, scrolled(inside), self._foot).setStretch(0, 1)
        self.setStyleSheet(FOCUS_STYLE)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        """Align the labels, now that they have the window's font."""
        align(self.forms)
        self.project.guard(self.window())
        self.docks.follow_later()
        super().showEvent(event)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 - Qt's name
        """Align the labels again where the window gets another font."""
        if event.type() == QEvent.Type.StyleChange and self.isVisible():
            self._align_later.start()
        super().changeEvent(event)

    def _connect(self) -> None:
        on_change(self.seeds.controls, self._on_seeding)
        self.live.toggled.connect(self._on_live)
        session, runs = self.session, self.runs
        runs.started.connect(lambda _run: self.cancel_button.setEnabled(True))
        runs.finished.connect(self._on_run_finished)
        runs.cancelled.connect(self._on_run_cancelled)
        runs.kept.connect(self._on_run_kept)
        runs.gave_up.connect(self._on_run_gave_up)
        runs.failed.connect(self._on_failed)
        runs.awaiting.connect(self._on_awaiting)
        session.seeds_changed.connect(self.show_hint)
        session.changed.connect(self.show_hint)
        session.layer_created.connect(self._on_layer_created)
        session.travelled.connect(self._on_travelled)
        session.styled.connect(self._on_styled)
        session.result_changed.connect(self._on_result_changed)
        session.activated.connect(self._on_activated)
        session.closed.connect(runs.give_up)
        self.bundles.followed.connect(self._on_followed)
        self.filtering.refused.connect(self.results.show_text)
        self.indexing.follow(self.filtering.index)
        self.dissection.weighed.connect(
            lambda: set_values(self.appearance.controls, {"colour_by": WEIGHT})
        )
        self.measure.begun.connect(self.results.forget_told)
        session.edited.connect(self._on_edited)
        self.destroyed.connect(runs.close)
        self.destroyed.connect(session.close)
        window = main_window(self.viewer)
        if window is not None:
            window.destroyed.connect(partial(let_go, self.viewer.layers))
            # Where its dock was closed before, which left it alone.
            window.destroyed.connect(self.deleteLater)

    def open_session(self) -> None:
        if self._attached:
            return
        self._attached = True
        self.session.open()
        self.bundles.open()
        self.project.open_keeper()
        self.runs.live = self.live.isChecked()
        self._listening.open()
        self.viewer.dims.events.ndisplay.connect(self._on_ndisplay, position="last")
        self._slices.open()
        keep_oriented(self.viewer)
        for part in (*self._sections, self.results):
            part.open()
        open_keys(self)
        self._show_first()
        self.viewer.mouse_drag_callbacks += [self.mouse.on_press, fewer_while_turning]
        self._refresh_layers()

    def close_session(self) -> None:
        if not self._attached:
            return
        self._attached = False
        for dialog in self.findChildren(SweepDialog):
            if not dialog.isHidden():
                dialog.reject()  # which ends what is tracked for it
        self.docks.join()
        self._listening.close()
        self.viewer.dims.events.ndisplay.disconnect(self._on_ndisplay)
        self._slices.close()
        for callback in (self.mouse.on_press, fewer_while_turning):
            if callback in self.viewer.mouse_drag_callbacks:
                self.viewer.mouse_drag_callbacks.remove(callback)
        for section in self._sections:
            section.close_section()
        self.cohort.close_cohort()
        close_keys(self)
        self.runs.close()
        self.project.close_keeper()
        self.filtering.close()
        self.bundles.close()
        self.session.close()
        self.results.close_section()
        self._show_idle()

    # -- layers --------------------------------------------------------------------------------

    def _refresh_layers(self, event: Any = None) -> None:
        if is_of_named_spheres(event):
            return
        self.session.take_reopened()
        self.data.refresh_layers()
        self.session.follow_volume()
        self.seeds.refresh_layers()
        self.tissues.refresh_layers()
        self.appearance.refresh_layers()
        self.measure.refresh_layers()
        self.bundle_list.show_offer()
        name_axes(self.viewer.layers)
        self.show_hint()

    def _on_fod_changed(self, is_other: bool) -> None:
        """Follow another FOD; what streamlines started from does not outlive that of before."""
        self.scene.fod_changed()
        name_axes(self.viewer.layers)
        self.appearance.show_legend()
        if is_other and self.seeds.source.value != WHOLE:
            self.seeds.source.value = PLACED

    def _on_ndisplay(self, _event: Any) -> None:
        turn_first(self.viewer)

    # -- the active bundle ----------------------------------------------------------------------

    def _show_first(self) -> None:
        """Show what there is; a bundle without a style of its own gets that of the panel."""
        bundle = self.session.bundle
        if not bundle.state.style:
            bundle.amend(everywhere=True, style=self.appearance.style)
            if bundle.state.is_blank:
                return
        self._on_activated(bundle)

    def set_colour(self, colour: str) -> None:
        with self.session.document.one_step(f"Colour of {self.session.bundle.name}"):
            values = {"colour": colour, "colour_by": ONE_COLOUR}
            set_values(self.appearance.controls, values)

    def mirror(self) -> None:
        """Make the bundle of the other side, and track it where this one was tracked."""
        was_tracked = self.session.tractogram is not None
        was_opened = self.session.bundle.state.is_opened
        if self.project.mirror() is None:
            return
        if was_opened:
            self.filtering.follow()
        elif was_tracked:
            self.run()

    def _on_activated(self, bundle: OpenBundle) -> None:
        self._show_bundle(bundle)
        self.runs.switch()

    def _on_travelled(self) -> None:
        bundle, appearance = self.session.bundle, self.appearance
        is_other = not appearance.shows(bundle.state.style, bundle.state.colour)
        self._show_bundle(bundle, styled=is_other)
        layer = self.session.streamlines_layer
        if layer is not None:
            if is_other:
                appearance.apply_to(layer)
            self.filtering.follow()

    def _on_styled(self) -> None:
        state = self.session.state
        self.appearance.show_style(state.style, state.colour)
        self.appearance.apply()

    def _show_bundle(self, bundle: OpenBundle, *, styled: bool = True) -> None:
        session = self.session
        with self.is_showing:
            self.data.fod_choice.value = session.fod_layer
            self.data.follow()
            for choice, name in (
                (self.data.mask_choice, "mask"),
                (self.seeds.mask_choice, "seed_mask"),
                (self.tissues.choice, "tissues"),
            ):
                show_choice(choice, session.chosen_input(name))
            set_values(self.seeds.controls, dataclasses.asdict(bundle.state.seeding))
            if styled:
                self.appearance.show_style(bundle.state.style, bundle.state.colour)
        self.selection.follow()
        self._show_result(bundle)
        is_opened = bundle.state.is_opened
        self.run_button.setEnabled(not is_opened)
        self.live.setEnabled(not is_opened)
        self.run_button.setToolTip(NOTHING_TO_TRACK if is_opened else RUN_HELP)

    def _show_result(self, bundle: OpenBundle) -> None:
        self.results.show_bundle(bundle)
        if bundle.tractogram is None and not bundle.state.summary:
            self.show_hint()

    def _on_result_changed(self, bundle: OpenBundle) -> None:
        if bundle is self.session.bundle and bundle.tractogram is None:
            self._show_result(bundle)

    def _on_layer_created(self, layer: Streamlines) -> None:
        if layer is self.session.streamlines_layer:
            self.appearance.adopt(layer)

    def _on_followed(self, bundle: OpenBundle) -> None:
        """Show a bundle whose streamlines came from a project."""
        if bundle is self.session.bundle:
            self.appearance.apply()
            self.filtering.follow()
            self.results.show_bundle(bundle)

    def ask_cohort(self) -> None:
        self.cohort.ask()
        if self.cohort.runs.cohort is not None:
            self.docks.show("Measure")

    # -- parameters and running ----------------------------------------------------------------

    def set_parameters(self, **values: Any) -> None:
        """Set parameters by name, as their controls do; what is out of range changes nothing."""
        own = tracking_values_of(values, self.session.seeding)
        if own:
            self.tracking.set(own)
        set_values(self.seeds.controls, values)

    @errors_shown()
    def ask_sweep(self) -> SweepDialog:
        """Ask for a parameter of the selected bundle, and show how the result depends on it."""
        dialog = SweepDialog(self.session, self.set_parameters, self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()
        return dialog

    def _on_seeding(self) -> None:
        if self.is_showing:
            return
        try:
            self.session.set_seeding(SeedingParameters(**values_of(self.seeds.controls)))
        except TractographyError as error:
            self.results.show_for_now(str(error))
            return
        self.show_hint()

    def run(self) -> None:
        try:
            self.session.tracking.parameters()  # those of the session are the last possible ones
        except TractographyError as error:
            self._on_failed(str(error), False, self.session.bundle)
            return
        self.session.regions.activate_all()
        self.bundles.set_visible(self.session.bundle, True)
        self.runs.start()

    def run_between(self) -> None:
        set_values(self.seeds.controls, {"source": SEED_SOURCES[-1]})
        self.run()

    def _on_live(self, on: bool) -> None:
        self.runs.live = on
        self.runs.follow()
        self.results.refresh_notice()

    def _on_awaiting(self, is_awaiting: bool) -> None:
        self.cancel_button.setEnabled(is_awaiting)
        self.results.refresh_notice()

    def _on_run_finished(self, run: Run) -> None:
        self._show_idle()
        tractogram = run.result
        assert tractogram is not None
        self.results.show_finished(run, tractogram)
        self.appearance.show_legend()
        if not len(tractogram) and not run.request.is_preview:
            show_warning(in_words(run.request.fod, tractogram.why_empty()))

    def _on_run_cancelled(self, run: Run) -> None:
        self._show_idle()
        self.results.show_cancelled(run)

    def _on_run_kept(self, run: Run) -> None:
        """Say how much a cancelled run had, and leave alone what is shown of the one after it."""
        current = self.runs.current
        if current is None:
            self._show_idle()
        if current is None or current.bundle is not run.bundle:
            self.results.show_cancelled(run)

    def _on_run_gave_up(self, _run: Run) -> None:
        self._show_idle()
        self.show_hint()

    def _on_edited(self) -> None:
        layer = self.session.streamlines_layer
        if layer is not None:
            summary = layer.editor.summary(self.session.space.unit)
            self.results.show_text_of(self.session.bundle, summary)

    def _on_failed(self, message: str, preview: bool, bundle: OpenBundle) -> None:
        if self.runs.current is None:  # else that run continues
            self._show_idle()
        self.results.show_problem(bundle, message)
        if bundle is not self.session.bundle:
            message = f"{bundle.name}: {message}"
        if not preview:  # while a seed is dragged one message is enough
            show_error(message)

    def _show_idle(self) -> None:
        self.results.show_idle()
        self.cancel_button.setEnabled(self.runs.is_awaiting)

    def show_hint(self) -> None:
        """Say what to do next, where there is no result; else the result, in place of a problem."""
        self.seeds.show_source()
        if self.runs.current is not None:
            return
        if self.session.tractogram is not None:
            self.results.show_lasting()
        else:
            self.results.show_text(next_step(self.session))
