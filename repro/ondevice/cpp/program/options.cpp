#include "options.hpp"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <variant>

namespace zo {
namespace {

struct Option {
    const char* name;
    std::variant<std::string Options::*, int Options::*, long Options::*, std::uint64_t Options::*,
                 double Options::*>
        field;
    double least;
    const char* help;
    double most = std::numeric_limits<double>::max();
};

constexpr double kMostSamples = 1 << 20, kMostThreads = 1024;  // the engine's
constexpr double kMostClasses = 256;                           // labels are bytes
constexpr double kMostRate = 1e6;                              // stays finite in float32

const Option kOptions[] = {
    {"--images", &Options::images, 0, "IDX file of training images (required)"},
    {"--labels", &Options::labels, 0, "IDX file of their labels (required)"},
    {"--test-images", &Options::test_images, 0, "IDX file of test images"},
    {"--test-labels", &Options::test_labels, 0, "IDX file of their labels"},
    {"--precision", &Options::precision, 0, "fp32, int8 or int8_star (default: int8)"},
    {"--method", &Options::method, 0, "full_zo, cls2, cls1 or full_bp (default: full_zo)"},
    {"--batch", &Options::batch, 1, "samples per step (default: 256)", kMostSamples},
    {"--epochs", &Options::epochs, 1, "passes over the images (default: 1)"},
    {"--steps", &Options::steps, 0, "maximum number of steps; 0 for no limit (default: 0)"},
    {"--threads", &Options::threads, 1, "OpenMP threads (default: 1)", kMostThreads},
    {"--classes", &Options::classes, 2, "outputs of the network (default: 10)", kMostClasses},
    {"--seed", &Options::seed, 0, "seed of all random numbers (default: 0)"},
    {"--lr", &Options::lr, 0,
     "fp32: learning rate, multiplied by 0.8 every 10 epochs (default: 0.002)", kMostRate},
    {"--eps", &Options::eps, 0, "fp32: scale of the perturbation (default: 0.01)", kMostRate},
    {"--clip", &Options::clip, 0, "fp32: largest projected gradient (default: 0.3)", kMostRate},
    {"--r-max", &Options::r_max, 2, "int8: largest entry of the perturbation (default: 15)"},
    {"--mean", &Options::mean, 0, "mean of the pixels divided by 255 (default: 0.1307)"},
    {"--deviation", &Options::deviation, 0,
     "their standard deviation, divided by 255 (default: 0.3081)"},
    {"--isa", &Options::isa, 0, "instruction set (default: auto, the fastest)"},
    {"--load", &Options::load, 0, "file of initial parameters, written by --save"},
    {"--save", &Options::save, 0, "file for the parameters, written after every epoch"},
};

[[noreturn]] void refuse(const Option& option, const std::string& text, const std::string& rule) {
    throw std::invalid_argument(std::string(option.name) + " " + text + ": must be " + rule);
}

void set(Options& options, const Option& option, const std::string& text) {
    std::visit(
        [&](auto field) {
            auto& value = options.*field;
            using T = std::remove_reference_t<decltype(value)>;
            if constexpr (std::is_same_v<T, std::string>) {
                value = text;
            } else {
                const char* const end = text.data() + text.size();
                const auto [stop, error] = std::from_chars(text.data(), end, value);
                if (error != std::errc() || stop != end) {
                    constexpr T largest = std::numeric_limits<T>::max();
                    const std::string most = option.most < double(largest)
                                                 ? std::to_string(long(option.most))
                                                 : std::to_string(largest);
                    refuse(option, text,
                           std::is_same_v<T, double>
                               ? "a number"
                               : "a whole number from " + std::to_string(long(option.least)) +
                                     " to " + most);
                }
                if (!(double(value) >= option.least) || !std::isfinite(double(value)))
                    refuse(option, text,
                           "finite and at least " + std::to_string(long(option.least)));
                if (double(value) > option.most)
                    refuse(option, text, "at most " + std::to_string(long(option.most)));
            }
        },
        option.field);
}

}  // namespace

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        bool* flag = nullptr;
        if (std::strcmp(argv[i], "--sequential") == 0) flag = &options.sequential;
        if (std::strcmp(argv[i], "--compact") == 0) flag = &options.compact;
        if (flag) {
            *flag = true;
            continue;
        }
        const Option* found = nullptr;
        for (const Option& option : kOptions)
            if (std::strcmp(argv[i], option.name) == 0) found = &option;
        if (!found)
            throw std::invalid_argument(std::string(argv[i]) +
                                        ": unknown option; --help lists all options");
        if (i + 1 == argc)
            throw std::invalid_argument(std::string(argv[i]) +
                                        ": its value is missing; give one after it");
        set(options, *found, argv[++i]);
    }
    if (options.images.empty() || options.labels.empty())
        throw std::invalid_argument("--images and --labels are required; --help lists all options");
    if (options.test_images.empty() != options.test_labels.empty())
        throw std::invalid_argument("give --test-images and --test-labels together");
    return options;
}

std::string usage() {
    std::string text =
        "usage: zo-train --images FILE --labels FILE [options]\n\n"
        "Train LeNet-5 on IDX files by ElasticZO, in float32 or in integers.\n\n";
    for (const Option& option : kOptions) {
        std::string line = std::string("  ") + option.name;
        line.resize(18, ' ');
        text += line + option.help + "\n";
    }
    return text +
           "  --compact       int8: use less memory and more time; same results\n"
           "  --sequential    take the images in the order of the file, not a random one\n";
}

}  // namespace zo
