"""What may follow on a command line, for a shell that completes a word.

A shell asks at every TAB, so that this package imports the standard library and what a call to the service
needs: no typer, no pydantic, no model of the console API. `resources/commands.json` has the commands.
"""
