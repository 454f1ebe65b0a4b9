//! From facts to the board.
