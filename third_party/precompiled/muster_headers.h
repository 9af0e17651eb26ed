// Included before every file, and empty: what stands in for muster_headers.h.gch/ where the compiler cannot use it.
