"""The dock widget: choose an FOD, place seeds, set parameters, run, look at the result, save.

Built from the parameter descriptions. What a person sets goes to the :class:`Session`, Run and
Live to the :class:`RunControl`; their signals tell the panel what to show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_error, show_warning
from qtpy.QtCore import Qt
from qtpy.QtGui import QShowEvent
from qtpy.QtWidgets import QCheckBox, QScrollArea, QVBoxLayout, QWidget

from ...errors import TractographyError
from ...model.seeding_parameters import SEED_SOURCES, SeedingParameters
from ..layers.frames import follow_volume
from ..session.filtering import Filtering
from ..session.listing import BundleList
from ..session.open_bundle import OpenBundle
from ..session.run_control import RunControl
from ..session.runs import Run
from ..session.seed_mouse import SeedMouse
from ..session.session import Session
from ..session.tracking_values import tracking_values_of
from ..space.camera import orient
from ..space.extent import SlicesKept
from ..timers import repeated
from .bundle_list import BundleSection
from .bundle_view import RUN_HELP, BundleView
from .display.appearance import AppearanceSection
from .display.pictures import Pictures
from .display.view import ViewSection
from .measure.section import MeasureSection
from .output_menu import OutputMenu
from .project_button import ProjectButton
from .results import Results
from .save_button import SaveButton
from .sections.data import DataSection
from .sections.device import DeviceSection
from .sections.dissection import Dissection
from .sections.region import RegionSection
from .sections.seed import SeedSection, next_step
from .sections.selection import SelectionSection
from .sections.tissues import TissueSection
from .sections.tracking import TrackingSection
from .settings import PanelSettings
from .status import StatusPositions
from .widgets.controls import (
    IgnoreWheel,
    align,
    on_change,
    set_values,
    values_of,
)
from .widgets.dock_watch import DockWatch
from .widgets.progress_row import ProgressRow
from .widgets.sections import FOCUS_STYLE, Section, add_entry, button, row
from .widgets.undo import UndoKeys, make_one_step_each

if TYPE_CHECKING:
    import napari

POLL_MS = 100
MIN_WIDTH = 360


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
        self,
        viewer: napari.viewer.Viewer,
        parent: QWidget | None = None,
        *,
        remember: bool = True,
    ) -> None:
        super().__init__(parent)
        # napari gives plugins a proxy, whose layers are not the layers that events carry.
        self.viewer = viewer = getattr(viewer, "__wrapped__", viewer)
        self._remember = remember
        self.session = Session(viewer)
        self.runs = RunControl(self.session)
        self.bundles = BundleList(self.session)
        self.filtering = Filtering(self.session)
        self._mouse = SeedMouse(self.session, show_warning)
        self.on_press = self._mouse.on_press  # one bound method, so that it can be removed
        self._positions = StatusPositions(self.session)
        self._slices = SlicesKept(viewer)
        self._undo_keys = UndoKeys(self, viewer, self.session.document)
        self._attached = False
        self._build()
        self._connect()
        self.settings = PanelSettings(self, keep=remember)
        self.project.discarded.connect(self.settings.discard)
        self.open_session()
        self._dock_watch = DockWatch(self, opened=self.open_session, closed=self.close_session)

    # -- layout --------------------------------------------------------------------------------

    def _build(self) -> None:
        self.bundle_list = BundleSection(
            self.bundles,
            colour_chosen=lambda colour: self.bundle_view.set_colour(colour),
            mirror=lambda: self.bundle_view.mirror(),
        )
        self.data = DataSection(self.session, lambda: self.scene.fod_changed())
        self.fod_choice, self.mask_choice = self.data.fod_choice, self.data.mask_choice
        self.add_fod, self.add_mask = self.data.add_fod, self.data.add_mask
        self.open_fod, self.open_mask = self.data.open_fod, self.data.open_mask
        self.seeds = SeedSection(self.session, show_warning)
        self.seeding, self.hint_label = self.seeds.controls, self.seeds.hint
        self.clear_seeds = self.seeds.clear
        self.regions = RegionSection(self.session, show_warning, self.run_between)
        self.tissues = TissueSection(self.session)
        self.tracking = TrackingSection(
            self.session, lambda text: self.results.tell_for_now(text), lambda: self.show_hint()
        )
        more = self.tracking.more_form
        self.forms = [*self.seeds.forms, self.regions.form, self.tracking.main_form, more]
        self.run_button = button("Run", RUN_HELP)
        self.cancel_button = button("Cancel", "Stop tracking and keep what has arrived.")
        self.cancel_button.setEnabled(False)
        self.live = QCheckBox("Live")
        self.live.setToolTip(
            "Track again whenever a seed or a parameter changes: a preview at once, all "
            "streamlines when nothing has changed for a moment."
        )
        self.results = Results(self.session, self.runs)
        self.save_button = SaveButton(self.session)
        self.save = self.save_button.save
        self.screenshot_button = button("Screenshot...", "Save a picture of the canvas as PNG.")
        self.pictures = Pictures(self.viewer)
        self.output = OutputMenu(self.session, self.pictures)
        self.project = ProjectButton(self.bundles, keep=self._remember)
        self.indexing = ProgressRow(
            "An index of where the streamlines run, by which regions filter them at once.",
            "Make no index; regions do not filter then.",
        )
        add_entry(
            self.output.menu(),
            "Restore defaults",
            lambda: self.settings.restore_defaults(),
            "Set every control of the panel as it was at first; layers stay.",
        )
        self.scene = ViewSection(self.session)
        self.appearance = AppearanceSection(self.session)
        self.device = DeviceSection(self.session, self.runs)
        self.selection = SelectionSection(self.session)
        self.dissection = Dissection(self.bundles, self.filtering)
        self.measure = MeasureSection(self.session, self.bundles)

        inside = QWidget()
        layout = QVBoxLayout(inside)
        layout.setContentsMargins(8, 0, 8, 4)
        layout.setSpacing(2)
        layout.addWidget(Section("Bundles", self.bundle_list, self.project.bar, self.indexing))
        layout.addWidget(Section("Data", self.data))
        layout.addWidget(Section("Seeds", self.seeds))
        regions = Section("Regions", self.regions, is_open=False)
        self.regions.asleep_added.connect(lambda: regions.header.setChecked(True))
        layout.addWidget(regions)
        layout.addWidget(Section("Tissues", self.tissues, is_open=False))
        layout.addWidget(Section("Tracking", self.tracking))
        layout.addWidget(Section("More parameters", more, is_open=False))
        layout.addWidget(Section("Display", self.appearance, is_open=False))
        layout.addWidget(Section("Selection", self.selection, self.dissection, is_open=False))
        layout.addWidget(Section("Measure", self.measure, is_open=False))
        layout.addWidget(Section("View", self.scene, is_open=False))
        layout.addWidget(Section("Device", self.device, is_open=False))
        self.forms += [
            self.appearance.form,
            self.dissection.form,
            self.measure.form,
            self.scene.form,
            self.scene.slices.form,
            self.device.form,
        ]
        layout.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidget(inside)
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        self._wheel = IgnoreWheel(self)
        self._wheel.watch(inside)
        make_one_step_each(inside, self.session.document)

        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scroll, 1)
        self._foot = QWidget()
        foot_layout = QVBoxLayout(self._foot)
        foot_layout.setContentsMargins(8, 4, 8, 6)
        output = row(self.save_button, self.project, self.screenshot_button, self.output)
        foot_layout.addWidget(Section("Results", self.results, output, self.pictures))
        foot_layout.addWidget(self.results.notice)
        foot_layout.addWidget(self.results.progress)
        # Last, so that it stays where it is whatever is said above it.
        foot_layout.addWidget(row(self.run_button, self.cancel_button, self.live))
        outer.addWidget(self._foot)
        self.setMinimumWidth(MIN_WIDTH)
        self.setStyleSheet(FOCUS_STYLE)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        """Align the labels and be as wide as the foot, now that they have the window's font."""
        align(self.forms)
        self.setMinimumWidth(max(MIN_WIDTH, self._foot.minimumSizeHint().width()))
        self.project.guard(self.window())
        super().showEvent(event)

    def _connect(self) -> None:
        on_change(self.seeding, self._on_seeding)
        self.run_button.clicked.connect(self.run)
        self.cancel_button.clicked.connect(self.runs.cancel)
        self.live.toggled.connect(self._on_live)
        self.screenshot_button.clicked.connect(self.pictures.ask)
        session, runs = self.session, self.runs
        runs.started.connect(self._on_run_started)
        runs.finished.connect(self._on_run_finished)
        runs.cancelled.connect(self._on_run_cancelled)
        runs.kept.connect(self._on_run_kept)
        runs.gave_up.connect(self._on_run_gave_up)
        runs.failed.connect(self._on_failed)
        runs.awaiting.connect(self._on_awaiting)
        session.seeds_changed.connect(self.show_hint)
        session.changed.connect(self.show_hint)
        self.bundle_view = BundleView(self)
        index = self.filtering.index
        index.progressed.connect(self.indexing.show_progress)
        index.ended.connect(self.indexing.finish)
        self.indexing.cancelled.connect(index.cancel)
        self.dissection.weighed.connect(self.bundle_view.show_weights)
        session.edited.connect(self._on_edited)
        self._poll = repeated(self, POLL_MS, self._on_poll)
        self.destroyed.connect(runs.close)
        self.destroyed.connect(session.close)

    @property
    def is_showing(self) -> bool:
        """Whether controls are being set to what a bundle says, which nobody chose by them."""
        return bool(self.bundle_view.is_showing)

    # -- opening and closing -------------------------------------------------------------------

    def open_session(self) -> None:
        """Listen to the viewer."""
        if self._attached:
            return
        self._attached = True
        self.session.open()
        self.bundles.open()
        self.project.open_keeper()
        self.runs.live = self.live.isChecked()
        for event in self._events:
            event.connect(self._refresh_layers)
        self.data.open()
        self.viewer.dims.events.order.connect(self._on_order)
        self._slices.open()
        orient(self.viewer)
        self.scene.open()
        self.device.open()
        self.settings.open()
        self._positions.open()
        self._undo_keys.open()
        self.selection.open()
        self.dissection.open()
        self.measure.open()
        self.regions.open()
        self.tissues.open()
        self.appearance.open()
        self.bundle_view.open()
        self.viewer.mouse_drag_callbacks.append(self.on_press)
        self._refresh_layers()

    def close_session(self) -> None:
        """Give up the run under way and stop listening to the viewer."""
        if not self._attached:
            return
        self._attached = False
        for event in self._events:
            event.disconnect(self._refresh_layers)
        self.data.close_section()
        self.viewer.dims.events.order.disconnect(self._on_order)
        self._slices.close()
        if self.on_press in self.viewer.mouse_drag_callbacks:
            self.viewer.mouse_drag_callbacks.remove(self.on_press)
        self.scene.close_scene()
        self.device.close_section()
        self.settings.close_settings()
        self._positions.close()
        self._undo_keys.close()
        self.selection.close_selection()
        self.dissection.close_dissection()
        self.measure.close_section()
        self.regions.close_section()
        self.tissues.close_section()
        self.appearance.close_appearance()
        self.runs.close()
        self.project.close_keeper()
        self.filtering.close()
        self.bundles.close()
        self.session.close()
        self.results.close_results()
        self._rest()

    @property
    def _events(self) -> tuple[Any, ...]:
        layers = self.viewer.layers.events
        return layers.inserted, layers.removed, layers.reordered, layers.renamed

    # -- layers --------------------------------------------------------------------------------

    def _refresh_layers(self, _event: Any = None) -> None:
        self.session.take_reopened()
        self.data.refresh_layers()
        follow_volume(self.session)
        self.seeds.refresh_layers()
        self.tissues.refresh_layers()
        self.appearance.refresh_layers()
        self.measure.refresh_layers()
        self.bundle_list.show_offer()
        self.show_hint()

    def _on_order(self, _event: Any) -> None:
        orient(self.viewer)

    # -- parameters and running ----------------------------------------------------------------

    def set_parameters(self, **values: Any) -> None:
        """Set parameters by name, as their controls do; what is out of range changes nothing."""
        own = tracking_values_of(values, self.session.seeding)
        if own:
            self.tracking.set(own)
        set_values(self.seeding, values)

    def _on_seeding(self) -> None:
        if self.bundle_view.is_showing:
            return
        try:
            self.session.set_parameters(seeding=SeedingParameters(**values_of(self.seeding)))
        except TractographyError as error:
            self.results.tell_for_now(str(error))
            return
        self.show_hint()

    def run(self) -> None:
        """Track from every seed."""
        try:
            self.session.tracking.parameters()  # those of the session are the last possible ones
        except TractographyError as error:
            self._on_failed(str(error), False, self.session.bundle)
            return
        self.session.regions.wake()
        self.bundles.set_visible(self.session.bundle, True)
        self.runs.start()

    def run_between(self) -> None:
        """Track between the two regions that are chosen."""
        set_values(self.seeding, {"source": SEED_SOURCES[-1]})
        self.run()

    def _on_live(self, on: bool) -> None:
        self.runs.live = on
        self.runs.follow()
        self.results.refresh_notice()

    def _on_awaiting(self, is_awaiting: bool) -> None:
        self.cancel_button.setEnabled(is_awaiting)
        self.results.refresh_notice()

    def _on_run_started(self, run: Run) -> None:
        self.cancel_button.setEnabled(True)
        self._poll.start()
        self.results.advance(run)

    def _on_poll(self) -> None:
        if self.runs.current is not None:
            self.results.advance(self.runs.current)

    def _on_run_finished(self, run: Run) -> None:
        self._rest()
        tractogram = run.given
        assert tractogram is not None
        self.results.show_finished(run, tractogram)
        self.appearance.show_legend()
        if not len(tractogram) and not run.request.is_preview:
            show_warning(tractogram.why_empty())

    def _on_run_cancelled(self, run: Run) -> None:
        self._rest()
        self.results.show_cancelled(run)

    def _on_run_kept(self, run: Run) -> None:
        """Say how much a cancelled run had, and leave alone what is shown of the one after it."""
        current = self.runs.current
        if current is None:
            self._rest()
        if current is None or current.bundle is not run.bundle:
            self.results.show_cancelled(run)

    def _on_run_gave_up(self, _run: Run) -> None:
        self._rest()
        self.show_hint()

    def _on_edited(self) -> None:
        layer = self.session.streamlines_layer
        if layer is not None:
            summary = layer.editor.summary(self.session.space.unit)
            self.results.tell_of(self.session.bundle, summary)
            self.save_button.refresh()

    def _on_failed(self, message: str, preview: bool, bundle: OpenBundle) -> None:
        if self.runs.current is None:  # else that run goes on
            self._rest()
        self.results.tell_problem(bundle, message)
        if bundle is not self.session.bundle:
            message = f"{bundle.name}: {message}"
        if not preview:  # while a seed is dragged one message is enough
            show_error(message)

    def _rest(self) -> None:
        self._poll.stop()
        self.results.rest()
        self.cancel_button.setEnabled(self.runs.is_awaiting)
        self.save_button.refresh()

    def show_hint(self) -> None:
        """Say what to do next, where there is no result; else the result, in place of a problem."""
        self.seeds.show_source()
        if self.runs.current is not None:
            return
        if self.session.tractogram is not None:
            self.results.tell_again()
        else:
            self.results.tell(next_step(self.session))
