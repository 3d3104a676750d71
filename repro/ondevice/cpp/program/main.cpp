// zo-train: trains LeNet-5 on IDX files and prints the accuracy and the time of each phase.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <numeric>
#include <stdexcept>

#include "../int_convolution.hpp"
#include "runs.hpp"

namespace {

using namespace zo;

constexpr int kEvaluated =
    500;  // images at a time, as in the tables; in integers logits depend on it

template <class Run>
double accuracy(Run& run, const Items& items) {
    std::vector<typename Run::Value> inputs;
    std::vector<std::int64_t> labels;
    std::vector<std::uint32_t> order(items.count());
    std::iota(order.begin(), order.end(), 0);
    int right = 0;
    for (std::size_t first = 0; first < order.size(); first += kEvaluated) {
        gather(items,
               std::span(order).subspan(first,
                                        std::min<std::size_t>(kEvaluated, order.size() - first)),
               run.levels(), inputs, labels);
        right += run.evaluate(inputs.data(), labels);
    }
    return double(right) / double(items.count());
}

template <class Run>
void train(const Options& o) {
    if (!o.save.empty()) require_writable(o.save);
    const Items items = read_items(o.images, o.labels, o.classes);
    const bool tested = !o.test_images.empty();
    const Items test = tested ? read_items(o.test_images, o.test_labels, o.classes) : Items{};
    const auto& shape = items.images.shape;
    if (tested && (test.images.shape[1] != shape[1] || test.images.shape[2] != shape[2]))
        throw std::runtime_error(o.test_images + ": its images must be as large as those of " +
                                 o.images);
    const std::vector<Layer> layers =
        lenet5(int(shape[1]), int(shape[2]), o.classes, Run::has_bias());
    const int largest = int(std::min<std::size_t>(o.batch, items.count())),
              most = std::max(largest, tested ? kEvaluated : 0), unit = Run::batch_unit(o),
              capacity = (most + unit - 1) / unit * unit;
    const Machine machine{kernels(o.isa, o.precision != "fp32"), o.threads, capacity, o.compact};
    Run run(o, layers, tail_of(o.method, int(layers.size())), machine);
    std::printf("%s %s, %zu images, batch %d, %s, %d threads, arena %zu bytes\n",
                o.precision.c_str(), o.method.c_str(), items.count(), o.batch, machine.kernels.name,
                o.threads, run.arena_bytes());

    std::vector<typename Run::Value> inputs;
    std::vector<std::int64_t> labels;
    std::vector<std::uint32_t> order(items.count());
    std::iota(order.begin(), order.end(), 0);
    long steps = 0;
    const auto done = [&] { return o.steps && steps == o.steps; };
    for (int epoch = 0; epoch < o.epochs && !done(); ++epoch) {
        run.start_epoch(epoch, o.epochs);
        if (!o.sequential) shuffle(order, o.seed, epoch);
        for (std::size_t first = 0; first < order.size() && !done(); first += o.batch, ++steps) {
            gather(items,
                   std::span(order).subspan(first,
                                            std::min<std::size_t>(o.batch, order.size() - first)),
                   run.levels(), inputs, labels);
            run.step(inputs.data(), labels, steps);
        }
        if (!o.save.empty()) run.save(o.save);
        std::printf("epoch %d, %ld steps", epoch + 1, steps);
        if (tested) std::printf(", test accuracy %.2f %%", 100 * accuracy(run, test));
        std::printf("\n");
        std::fflush(stdout);
    }
    for (int phase = 0; phase < kPhases; ++phase)
        std::printf("%-9s%10.3f s\n", kPhaseNames[phase], run.timers().seconds()[phase]);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        for (const char* const argument : std::span(argv + 1, argv + argc))
            if (std::strcmp(argument, "--help") == 0 || std::strcmp(argument, "-h") == 0)
                return std::fputs(usage().c_str(), stdout) < 0;
        const Options options = parse(argc, argv);
        if (options.precision == "fp32")
            train<FloatRun>(options);
        else
            train<IntRun>(options);
        if (std::fflush(stdout) != 0 || std::ferror(stdout))
            throw std::runtime_error("the output cannot be written");
    } catch (const std::invalid_argument& error) {
        std::fprintf(stderr, "zo-train: error: %s\n", error.what());
        return 2;
    } catch (const std::bad_alloc&) {
        std::fprintf(stderr,
                     "zo-train: error: not enough memory for the images and the network; give a "
                     "smaller --batch or fewer images\n");
        return 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "zo-train: error: %s\n", error.what());
        return 1;
    }
    return 0;
}
