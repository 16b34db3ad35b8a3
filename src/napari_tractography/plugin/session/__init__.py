"""What the person is doing, without widgets: state, runs, seeds and regions."""
