"""What the panel is made of: controls, sections, dialogs, the dock."""
