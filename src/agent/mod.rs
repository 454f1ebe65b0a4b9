//! `macluster agent`: the daemon that owns a node's engine.
