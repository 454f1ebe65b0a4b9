//! Who is rank 0, and what every rank's process gets: environment, hostfile, device matrix.
