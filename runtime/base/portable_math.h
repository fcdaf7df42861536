// Elementary functions from IEEE basic operations only: same bits on every machine and compiler
// (libm's may differ in the last place). Relative error about 1e-15; not for hot inner loops.
#pragma once

namespace orrery {

double portable_log(double x);            // x > 0, finite
double portable_exp(double x);            // |x| < 700
double portable_pow(double x, double y);  // x > 0
double portable_sin_2pi(double turns);    // sin(2*pi*turns), turns in [0, 1)

}  // namespace orrery
