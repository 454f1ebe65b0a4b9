//! Link networks: addressing, and the difference between what is and what should be, as a plan.
