//! Playbooks: ordered, auditable steps; loaded, validated, expanded.
