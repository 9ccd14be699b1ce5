"""The journal: append-only entries, a Merkle tree over them, signed checkpoints, and blobs."""
