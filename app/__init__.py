"""The Burnish desktop app: PySide6 and pyqtgraph around the engine in `trainer_core`."""
