"""The list of faults keeps up with the code: each can be put in, and its tests are there."""

from __future__ import annotations

from collections import Counter

from tests.mutations.faults import all_faults
from tests.mutations.trial import ROOT

FEWEST = 60


def test_each_fault_can_still_be_put_into_its_file() -> None:
    texts = {file: (ROOT / file).read_text() for file in {fault.file for fault in all_faults()}}
    for fault in all_faults():
        assert texts[fault.file].count(fault.old) == 1, (fault.file, fault.breaks)
        changed = texts[fault.file].replace(fault.old, fault.new)
        assert changed != texts[fault.file], (fault.file, fault.breaks)
        compile(changed, fault.file, "exec")


def test_no_fault_is_listed_twice_and_each_is_looked_for_in_tests_that_exist() -> None:
    faults = all_faults()
    assert len(faults) >= FEWEST
    assert not [
        what for what, count in Counter((one.file, one.old, one.new) for one in faults).items() if count > 1
    ]
    for fault in faults:
        assert fault.tests, fault.breaks
        for file in fault.tests:
            assert (ROOT / file).is_file(), file
