//! Facts from live nodes or a recording: probes run, transcripts kept, facts assembled.
