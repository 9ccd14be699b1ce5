"""The journal as pictures: time line, frames, what changed between two frames."""
