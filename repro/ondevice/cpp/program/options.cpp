#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <variant>
#include <vector>

namespace zo {
namespace {

constexpr double kMostSamples = 1 << 20, kMostThreads = 1024;  // the engine's
constexpr double kMostClasses = 256;                           // labels are bytes
constexpr double kMostRate = 1e6;                              // stays finite in float32
constexpr double kUnlimited = std::numeric_limits<double>::max();

struct Option {
    const char* name;
    std::variant<bool Options::*, std::string Options::*, int Options::*, long Options::*,
                 std::uint64_t Options::*, double Options::*>
        field;
    const char* help;
    double least = 0, most = kUnlimited;
    const char* format = "";  ///< only this precision reads it (int8: int8_star, too); empty: all

    bool is_flag() const { return std::holds_alternative<bool Options::*>(field); }
    bool is_read(const std::string& precision) const { return precision.starts_with(format); }
};

const Option kOptions[] = {
    {"--images", &Options::images, "IDX file of training images (required)"},
    {"--labels", &Options::labels, "IDX file of their labels (required)"},
    {"--test-images", &Options::test_images, "IDX file of test images"},
    {"--test-labels", &Options::test_labels, "IDX file of their labels"},
    {"--precision", &Options::precision, "fp32, int8 or int8_star (default: int8)"},
    {"--method", &Options::method, "full_zo, cls2, cls1 or full_bp (default: full_zo)"},
    {"--batch", &Options::batch, "samples per step (default: 256)", 1, kMostSamples},
    {"--epochs", &Options::epochs, "passes over the images (default: 1)", 1},
    {"--steps", &Options::steps, "maximum number of steps; 0 for no limit (default: 0)"},
    {"--threads", &Options::threads, "OpenMP threads (default: 1)", 1, kMostThreads},
    {"--classes", &Options::classes, "outputs of the network (default: 10)", 2, kMostClasses},
    {"--seed", &Options::seed, "seed of all random numbers (default: 0)"},
    {"--lr", &Options::lr, "learning rate, multiplied by 0.8 every 10 epochs (default: 0.002)", 0,
     kMostRate, "fp32"},
    {"--eps", &Options::eps, "scale of the perturbation (default: 0.01)", 0, kMostRate, "fp32"},
    {"--clip", &Options::clip, "largest projected gradient (default: 0.3)", 0, kMostRate, "fp32"},
    {"--r-max", &Options::r_max, "largest entry of the perturbation (default: 15)", 2, kUnlimited,
     "int8"},
    {"--mean", &Options::mean, "mean of the pixels divided by 255 (default: 0.1307)"},
    {"--deviation", &Options::deviation,
     "their standard deviation, divided by 255 (default: 0.3081)"},
    {"--isa", &Options::isa, "instruction set (default: auto, the fastest)"},
    {"--load", &Options::load, "file of initial parameters, written by --save"},
    {"--save", &Options::save, "file for the parameters, written after every epoch"},
    {"--compact", &Options::compact, "use less memory and more time; same results", 0, kUnlimited,
     "int8"},
    {"--sequential", &Options::sequential,
     "take the images in the order of the file, not a random one"},
};

[[noreturn]] void refuse(const Option& option, const std::string& text, const std::string& rule) {
    throw std::invalid_argument(std::string(option.name) + " " + text + ": must be " + rule);
}

void set(Options& options, const Option& option, const std::string& text) {
    std::visit(
        [&](auto field) {
            auto& value = options.*field;
            using T = std::remove_reference_t<decltype(value)>;
            if constexpr (std::is_same_v<T, bool>) {
                value = true;
            } else if constexpr (std::is_same_v<T, std::string>) {
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
    std::vector<const Option*> given;
    for (int i = 1; i < argc; ++i) {
        const auto found = std::ranges::find_if(
            kOptions, [&](const Option& option) { return std::strcmp(argv[i], option.name) == 0; });
        if (found == std::end(kOptions))
            throw std::invalid_argument(std::string(argv[i]) +
                                        ": unknown option; --help lists all options");
        if (!found->is_flag() && ++i == argc)
            throw std::invalid_argument(std::string(found->name) +
                                        ": its value is missing; give one after it");
        set(options, *found, argv[i]);
        given.push_back(found);
    }
    if (options.precision != "fp32" && options.precision != "int8" &&
        options.precision != "int8_star")
        throw std::invalid_argument("--precision " + options.precision +
                                    ": must be fp32, int8 or int8_star");
    for (const Option* option : given)
        if (!option->is_read(options.precision))
            throw std::invalid_argument(std::string(option->name) +
                                        " has no effect with --precision " + options.precision +
                                        "; leave it out");
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
        text += line + option.format + (*option.format ? ": " : "") + option.help + "\n";
    }
    return text;
}

}  // namespace zo
