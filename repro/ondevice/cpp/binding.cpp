// The Python module: plain arrays in and out; repro.ondevice wraps it.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>

#include "finite.hpp"
#include "float_training.hpp"
#include "int_convolution.hpp"
#include "int_training.hpp"
#include "kernels.hpp"
#include "noise.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using In = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

std::map<std::string, double> seconds(const zo::Timers& timers) {
    std::map<std::string, double> result;
    for (int phase = 0; phase < zo::kPhases; ++phase)
        result[zo::kPhaseNames[phase]] = timers.seconds()[phase];
    return result;
}

/// The samples of a batch that fits the network; throws std::invalid_argument.
template <class T>
int batch_of(const In<T>& inputs, std::size_t features, int capacity) {
    const std::size_t batch = inputs.ndim() ? inputs.shape(0) : 0;
    if (batch < 1 || batch > std::size_t(capacity))
        throw std::invalid_argument(std::to_string(batch) + " inputs: must be from 1 to " +
                                    std::to_string(capacity));
    if (inputs.size() != batch * features)
        throw std::invalid_argument("inputs of " + std::to_string(inputs.size() / batch) +
                                    " features: the network has " + std::to_string(features));
    return int(batch);
}

std::span<const std::int64_t> labels_of(const In<std::int64_t>& labels, int batch, int classes) {
    const std::span<const std::int64_t> span(labels.data(), labels.size());
    if (int(span.size()) != batch)
        throw std::invalid_argument(std::to_string(span.size()) + " labels for " +
                                    std::to_string(batch) + " inputs");
    for (std::int64_t label : span)
        if (label < 0 || label >= classes)
            throw std::invalid_argument("label " + std::to_string(label) + ": must be from 0 to " +
                                        std::to_string(classes - 1));
    return span;
}

/// The loss of a batch with a NaN or an infinity could not be finite.
void require_finite(std::span<const float> values) {
    if (!zo::all_finite(values.size(), [&](std::size_t i) { return values[i]; }))
        throw std::invalid_argument("inputs with a NaN or an infinity: all must be finite");
}

template <class T>
auto array(std::vector<T> values, std::size_t rows, std::size_t columns) {
    auto* const kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T>(kept->data(), {rows, columns}, owner);
}

/// A copy of the logits, [batch][classes], and their exponent.
auto copied(const zo::IntLogits& logits) {
    const std::size_t batch = logits.batch, classes = logits.classes;
    return std::make_tuple(
        array(std::vector<std::int8_t>(logits.values, logits.values + batch * classes), batch,
              classes),
        logits.exponent);
}

/// Values in an arena, as an array that keeps the arena's block and nothing else: PyTorch does not
/// free a tensor that has views when the interpreter ends, and must not hold the engine with it.
template <class T>
auto shared(std::span<T> values, const zo::Arena& arena) {
    using Block = std::shared_ptr<std::byte>;
    nb::capsule owner(new Block(arena.block()),
                      [](void* p) noexcept { delete static_cast<Block*>(p); });
    return nb::ndarray<nb::numpy, T, nb::ndim<1>>(values.data(), {values.size()}, owner);
}

int padded(int batch, int unit) { return batch < 1 ? batch : (batch + unit - 1) / unit * unit; }

/// A distribution of noise, or a product of two matrices; and the kernels that draw and add it.
class Noise {
   public:
    Noise(const std::string& distribution, const std::string& isa)
        : kernels_(zo::kernels(isa, false)), signs_(distribution == "signs") {
        if (!signs_ && distribution != "gaussian")
            throw std::invalid_argument("distribution " + distribution +
                                        ": must be gaussian or signs");
    }

    Noise(In<float> left, In<float> right, const std::string& isa)
        : kernels_(zo::kernels(isa, false)), left_(std::move(left)), right_(std::move(right)) {
        if (left_.ndim() != 2 || right_.ndim() != 2 || left_.shape(1) != right_.shape(0) ||
            !right_.size())
            throw std::invalid_argument("left and right must be [m, r] and [r, n]");
        product_ = {left_.data(), right_.data(), right_.shape(0), right_.shape(1)};
    }

    /// The pointer to the product is valid as long as this object.
    zo::NoisePart part(int threads, std::uint64_t seed, std::uint64_t first,
                       std::size_t count) const {
        const bool is_product = product_.rank;
        if (is_product && (first || count != left_.shape(0) * product_.columns))
            throw std::invalid_argument("a product is added to the whole of a matrix of its shape");
        return {kernels_, signs_, is_product ? &product_ : nullptr, threads, seed, first, count};
    }

   private:
    const zo::Kernels& kernels_;
    bool signs_ = false;
    In<float> left_, right_;
    zo::Product product_{};
};

zo::HalfFormat format(bool bfloat16) {
    return bfloat16 ? zo::HalfFormat::kBfloat16 : zo::HalfFormat::kFloat16;
}

double peak(long (*multiply)(long)) {
    using Clock = std::chrono::steady_clock;
    double best = 0;
    for (int turn = 0; turn < 5; ++turn) {
        const auto start = Clock::now();
        const long done = multiply(2'000'000);
        best = std::max(best,
                        double(done) / std::chrono::duration<double>(Clock::now() - start).count());
    }
    return best;
}

/// A class of training, with what all have: the weights, the seed, times and memory.
template <class Training>
nb::class_<Training> training(nb::module_& m, const char* name) {
    return nb::class_<Training>(m, name)
        .def_prop_ro(
            "parameters",
            [](Training& self) {
                return shared(self.network().parameters(), self.network().arena());
            },
            nb::rv_policy::reference)
        .def_prop_rw(
            "seed", [](Training& self) { return self.settings().seed; },
            [](Training& self, std::uint64_t seed) { self.settings().seed = seed; })
        .def("seconds", [](Training& self) { return seconds(self.timers()); })
        .def_prop_ro("arena_bytes", [](Training& self) { return self.network().arena().bytes(); });
}

}  // namespace

NB_MODULE(_engine, m) {
    nb::class_<zo::Layer>(m, "Layer")
        .def(
            "__init__",
            [](zo::Layer* at, std::string name, int channels, int height, int width, int outputs,
               int kernel_height, int kernel_width, int padding, bool bias, bool rectified,
               int pool_height, int pool_width, bool normed, float norm_eps, float norm_momentum,
               bool norm_frozen) {
                new (at) zo::Layer{std::move(name), channels,     height,  width,    outputs,
                                   kernel_height,   kernel_width, padding, bias,     rectified,
                                   pool_height,     pool_width,   normed,  norm_eps, norm_momentum,
                                   norm_frozen};
            },
            nb::kw_only(), "name"_a, "channels"_a, "height"_a, "width"_a, "outputs"_a,
            "kernel_height"_a, "kernel_width"_a, "padding"_a, "bias"_a, "rectified"_a,
            "pool_height"_a, "pool_width"_a, "normed"_a, "norm_eps"_a, "norm_momentum"_a,
            "norm_frozen"_a);

    training<zo::IntTraining>(m, "IntTraining")
        .def(
            "__init__",
            [](zo::IntTraining* at, std::vector<zo::Layer> layers, int tail, int capacity,
               int threads, const std::string& isa, int r_max, const std::string& sign,
               bool minus_activations, bool exact_restore, std::uint64_t seed, bool compact) {
                std::vector<int> exponents(layers.size());  // Python adds the weights' itself
                new (at) zo::IntTraining(
                    std::move(layers), std::move(exponents), tail,
                    {zo::kernels(isa), threads, padded(capacity, compact ? 1 : zo::kBatchUnit),
                     compact},
                    {.r_max = r_max,
                     .sign = sign == "integer" ? zo::SignRule::kInteger : zo::SignRule::kFloat,
                     .minus_activations = minus_activations,
                     .exact_restore = exact_restore,
                     .seed = seed});
            },
            nb::kw_only(), "layers"_a, "tail"_a, "capacity"_a, "threads"_a, "isa"_a, "r_max"_a,
            "sign"_a, "minus_activations"_a, "exact_restore"_a, "seed"_a, "compact"_a)
        .def(
            "step",
            [](zo::IntTraining& self, In<std::int8_t> inputs, int exponent, In<std::int64_t> labels,
               std::uint64_t number, double p_zero, int b_zo, int b_bp) {
                zo::IntNetwork& network = self.network();
                const int batch = batch_of(inputs, network.inputs(), network.machine().capacity);
                const auto span = labels_of(labels, batch, network.classes());
                zo::IntSettings settings = self.settings();
                settings.p_zero = p_zero;
                settings.b_zo = b_zo;
                settings.b_bp = b_bp;
                settings.check();
                self.settings() = settings;
                nb::gil_scoped_release release;
                const zo::IntStep step = self.step(inputs.data(), exponent, span, number);
                return std::make_tuple(step.losses.sign, step.losses.plus, step.losses.minus,
                                       step.key, step.clipped);
            },
            "inputs"_a.noconvert(), "exponent"_a, "labels"_a.noconvert(), "number"_a, "p_zero"_a,
            "b_zo"_a, "b_bp"_a)
        .def(
            "forward",
            [](zo::IntTraining& self, In<std::int8_t> inputs, int exponent) {
                zo::IntNetwork& network = self.network();
                const int batch = batch_of(inputs, network.inputs(), network.machine().capacity);
                zo::IntLogits logits{};
                {
                    nb::gil_scoped_release release;
                    network.read(inputs.data(), batch, exponent);
                    logits = network.forward(false);
                }
                return copied(logits);
            },
            "inputs"_a.noconvert(), "exponent"_a)
        .def("passes", [](zo::IntTraining& self) {
            const zo::IntPasses& passes = self.passes();
            return std::make_tuple(copied(passes.plus), copied(passes.minus));
        });

    training<zo::FloatTraining>(m, "FloatTraining")
        .def(
            "__init__",
            [](zo::FloatTraining* at, std::vector<zo::Layer> layers, int tail, int capacity,
               int threads, const std::string& isa, float eps, float clip, float plus_share,
               float minus_share, std::uint64_t seed) {
                new (at) zo::FloatTraining(
                    std::move(layers), tail,
                    {zo::kernels(isa, false), threads, padded(capacity, zo::kGroup)},
                    {.eps = eps,
                     .clip = clip,
                     .plus_share = plus_share,
                     .minus_share = minus_share,
                     .seed = seed});
            },
            nb::kw_only(), "layers"_a, "tail"_a, "capacity"_a, "threads"_a, "isa"_a, "eps"_a,
            "clip"_a, "plus_share"_a, "minus_share"_a, "seed"_a)
        .def(
            "step",
            [](zo::FloatTraining& self, In<float> inputs, In<std::int64_t> labels,
               std::uint64_t number, float lr) {
                zo::FloatNetwork& network = self.network();
                const int batch = batch_of(inputs, network.inputs(), network.machine().capacity);
                const auto span = labels_of(labels, batch, network.classes());
                require_finite({inputs.data(), inputs.size()});
                network.check_training(batch);
                nb::gil_scoped_release release;
                const zo::FloatStep step = self.step(inputs.data(), span, number, lr);
                return std::make_tuple(step.plus, step.minus, step.gradient, step.key, step.finite);
            },
            "inputs"_a.noconvert(), "labels"_a.noconvert(), "number"_a, "lr"_a)
        .def(
            "forward",
            [](zo::FloatTraining& self, In<float> inputs) {
                zo::FloatNetwork& network = self.network();
                const int batch = batch_of(inputs, network.inputs(), network.machine().capacity);
                require_finite({inputs.data(), inputs.size()});
                std::span<const float> logits;
                {
                    nb::gil_scoped_release release;
                    network.read(inputs.data(), batch);
                    logits = network.forward(zo::Pass::kEvaluation);
                }
                return array(std::vector<float>(logits.begin(), logits.end()), batch,
                             network.classes());
            },
            "inputs"_a.noconvert())
        .def("move", &zo::FloatTraining::move, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("statistics", [](zo::FloatTraining& self) {
            nb::list all;
            for (std::span<float> one : self.network().statistics())
                all.append(nb::cast(shared(one, self.network().arena())));
            return all;
        });

    m.attr("noise_piece") = zo::kNoisePiece;
    nb::class_<zo::LatticePass>(m, "LatticePass")
        .def(
            "__init__",
            [](zo::LatticePass* at, float scale, float levels, float step, float bound, float ulp,
               int digits, float before, float after, bool descends) {
                new (at) zo::LatticePass{.scale = scale,
                                         .levels = levels,
                                         .step = step,
                                         .bound = bound,
                                         .ulp = ulp,
                                         .significand = std::uint32_t(digits - 1) << 23,
                                         .before = before,
                                         .after = after,
                                         .descends = descends};
            },
            nb::kw_only(), "scale"_a, "levels"_a, "step"_a, "bound"_a, "ulp"_a, "digits"_a,
            "before"_a, "after"_a, "descends"_a);
    nb::class_<Noise>(m, "Noise")
        .def(nb::init<const std::string&, const std::string&>(), "distribution"_a, "isa"_a)
        .def(nb::init<In<float>, In<float>, const std::string&>(), "left"_a.noconvert(),
             "right"_a.noconvert(), "isa"_a)
        .def(
            "draw",
            [](const Noise& noise, Out<float> z, std::uint64_t seed, std::uint64_t first) {
                const zo::NoisePart part = noise.part(1, seed, first, z.size());
                nb::gil_scoped_release release;
                zo::draw(part, z.data());
            },
            "z"_a.noconvert(), "seed"_a, "first"_a)
        .def(
            "add",
            [](const Noise& noise, Out<float> theta, std::uint64_t seed, std::uint64_t first,
               float factor, int threads) {
                const zo::NoisePart part = noise.part(threads, seed, first, theta.size());
                nb::gil_scoped_release release;
                zo::add(part, theta.data(), factor);
            },
            "theta"_a.noconvert(), "seed"_a, "first"_a, "factor"_a, "threads"_a)
        .def(
            "add_halves",
            [](const Noise& noise, Out<std::uint16_t> theta, bool bfloat16, std::uint64_t seed,
               std::uint64_t first, float factor, int threads) {
                const zo::NoisePart part = noise.part(threads, seed, first, theta.size());
                nb::gil_scoped_release release;
                zo::add(part, theta.data(), format(bfloat16), factor);
            },
            "theta"_a.noconvert(), "bfloat16"_a, "seed"_a, "first"_a, "factor"_a, "threads"_a)
        .def(
            "lattice_pass",
            [](const Noise& noise, Out<std::uint16_t> theta, bool bfloat16, std::uint64_t seed,
               const zo::LatticePass& pass, std::size_t chunk, int threads) {
                const zo::NoisePart part = noise.part(threads, seed, 0, theta.size());
                nb::gil_scoped_release release;
                zo::lattice_pass(part, theta.data(), format(bfloat16), chunk, pass);
            },
            "theta"_a.noconvert(), "bfloat16"_a, "seed"_a, "pass"_a, "chunk"_a, "threads"_a);
    m.def(
        "lattice_pass_along",
        [](Out<std::uint16_t> theta, bool bfloat16, In<float> z, In<float> uniform,
           const zo::LatticePass& given, const std::string& isa) {
            if (z.size() != theta.size() || uniform.size() != (given.descends ? theta.size() : 0))
                throw std::invalid_argument(
                    "z and uniform must be as long as theta, uniform empty "
                    "where nothing is rounded");
            const zo::Kernels& kernels = zo::kernels(isa, false);
            zo::LatticePass pass = given;
            pass.uniform = uniform.data();
            nb::gil_scoped_release release;
            kernels.halves[int(format(bfloat16))].lattice_pass(pass, theta.data(), z.data(),
                                                               theta.size());
        },
        "theta"_a.noconvert(), "bfloat16"_a, "z"_a.noconvert(), "uniform"_a.noconvert(), "pass"_a,
        "isa"_a);
    m.def("instruction_sets", &zo::instruction_sets);
    m.def("peak_f32",
          [](const std::string& isa) { return peak(zo::kernels(isa, false).peak_f32); });
    m.def("peak_i8", [](const std::string& isa) { return peak(zo::kernels(isa).peak_i8); });
}
