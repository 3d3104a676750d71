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

const Option kOptions[] = {
    {"--images", &Options::images, 0, "IDX file of training images (needed)"},
    {"--labels", &Options::labels, 0, "IDX file of their labels (needed)"},
    {"--test-images", &Options::test_images, 0, "IDX file of test images"},
    {"--test-labels", &Options::test_labels, 0, "IDX file of their labels"},
    {"--precision", &Options::precision, 0, "fp32, int8 or int8s (int8)"},
    {"--method", &Options::method, 0, "full_zo, cls2, cls1 or full_bp (full_zo)"},
    {"--batch", &Options::batch, 1, "samples of a step (256)", kMostSamples},
    {"--epochs", &Options::epochs, 1, "passes over the images (1)"},
    {"--steps", &Options::steps, 0, "at most so many steps, 0 for no limit (0)"},
    {"--threads", &Options::threads, 1, "OpenMP threads (1)", kMostThreads},
    {"--classes", &Options::classes, 2, "logits of the network (10)", kMostClasses},
    {"--seed", &Options::seed, 0, "of all random streams (0)"},
    {"--lr", &Options::lr, 0, "fp32: learning rate, times 0.8 every 10 epochs (0.002)"},
    {"--eps", &Options::eps, 0, "fp32: scale of the perturbation (0.01)"},
    {"--clip", &Options::clip, 0, "fp32: largest projected gradient (0.3)"},
    {"--r-max", &Options::r_max, 2, "int8: largest entry of the perturbation (15)"},
    {"--mean", &Options::mean, 0, "of the pixels, in units of 255 (0.1307)"},
    {"--deviation", &Options::deviation, 0, "of the pixels, likewise (0.3081)"},
    {"--isa", &Options::isa, 0, "instruction set (auto: the best)"},
    {"--load", &Options::load, 0, "file of parameters to begin with"},
    {"--save", &Options::save, 0, "file for the parameters at the end"},
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
                if (error != std::errc() || stop != end) refuse(option, text, "a number");
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
                                        ": no such option; --help lists them");
        if (i + 1 == argc)
            throw std::invalid_argument(std::string(argv[i]) + ": a value must follow");
        set(options, *found, argv[++i]);
    }
    if (options.images.empty() || options.labels.empty())
        throw std::invalid_argument("--images and --labels are needed; --help lists all options");
    if (options.test_images.empty() != options.test_labels.empty())
        throw std::invalid_argument("--test-images and --test-labels go together");
    return options;
}

std::string usage() {
    std::string text =
        "zo-train: train LeNet-5 on IDX files by ElasticZO, in float32 or in integers\n\n";
    for (const Option& option : kOptions) {
        std::string line = std::string("  ") + option.name;
        line.resize(18, ' ');
        text += line + option.help + "\n";
    }
    return text +
           "  --compact       int8: least memory, not speed; the same results\n"
           "  --sequential    take the images in the files' order, not a random one\n";
}

}  // namespace zo
