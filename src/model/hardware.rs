//! The catalogue of Macs: what their receptacles are. One table knows the models.
