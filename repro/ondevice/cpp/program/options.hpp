// Options of the command-line program.
#pragma once

#include <cstdint>
#include <string>

namespace zo {

struct Options {
    std::string images, labels, test_images, test_labels;
    std::string precision = "int8";  ///< fp32, int8 or int8_star
    std::string method = "full_zo";  ///< full_zo, cls2, cls1 or full_bp
    std::string load, save;          ///< files of parameters
    std::string isa = "auto";
    int batch = 256, epochs = 1, threads = 1, classes = 10;
    long steps = 0;  ///< at most so many, if not 0
    bool sequential = false, compact = false;
    std::uint64_t seed = 0;
    double lr = 2e-3, eps = 1e-2, clip = 0.3;
    int r_max = 15;
    double mean = 0.1307, deviation = 0.3081;  ///< of the pixels, in units of 255
};

/// Reads the command line. Throws std::invalid_argument, naming the option and the limit.
Options parse(int argc, char** argv);

/// What --help prints.
std::string usage();

}  // namespace zo
