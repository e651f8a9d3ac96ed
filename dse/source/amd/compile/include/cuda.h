// What device code needs of it is in prelude.h, which is always there.
