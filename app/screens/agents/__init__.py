"""The screen of agents: who is connected, what each asked for, was given and was denied, and its limits."""
