"""Golden pictures: the gallery and every screen of the window, drawn before and after a change and compared.

    python -m tests.golden_pictures write DIR [SCENE…]     # draw the present code
    python -m tests.golden_pictures compare BEFORE AFTER   # exit code 1 when a picture differs
    python -m tests.golden_pictures against COMMIT         # draw that commit and this code, compare them

Pixels depend on Qt's version and on the fonts of the machine, so no picture is kept in the repository: both
sides are drawn on one machine by one interpreter, and `compare` refuses pictures of different environments.
What is drawn is invented (`tests/fakes`), how it looks is the program's own. (`tests.golden` is another
thing: it keeps journal entries and frames, which are the same on every machine, and has no pictures.)

Each scene of `scenes/` is drawn in a process of its own, with a fixed clock and fixed "random" bytes
(`still.py`), without motion, at each scale, in each of the looks of `studio.py`. Drawing twice gives
identical files; a test in `tests/gui` proves it.

Each side of `against` is drawn with its own commit's scenes and fakes. So a changed fake shows as a
difference: commit such a change apart, and look at its pictures once. A commit from before this package is
drawn with a copy of the present one on its own fakes; scenes that its code cannot play are named and count
as differences.
"""
