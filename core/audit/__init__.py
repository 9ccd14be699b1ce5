"""The journal: append-only entries, Merkle tree, signed checkpoints, blobs."""
