package app

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/cmd/internal/build"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
)

// telemetry sends spans to a collector. Without one it makes none.
type telemetry struct {
	tracer   *trace.Tracer
	provider *sdktrace.TracerProvider
}

// newTelemetry makes what the file, or OpenTelemetry's variables, want. Nothing is sent before there is a span, and a collector that is away costs
// the spans of that time, and nothing else.
func newTelemetry(a *App) (telemetry, error) {
	file := a.file().Telemetry
	wanted := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" || file != nil && file.Endpoint != ""
	if !wanted || os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return telemetry{}, nil
	}
	ctx := context.Background() // nothing connects yet
	exporter, err := otlptracehttp.New(ctx, exporterOptions(file)...)
	if err != nil {
		return telemetry{}, schemas.Errorf(schemas.Invalid, "telemetry", "%w", err)
	}
	info := build.Read()
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "forebay"), attribute.String("service.version", info.Version)),
		resource.WithHost(), resource.WithProcessPID(), resource.WithFromEnv())
	if err != nil {
		return telemetry{}, schemas.Errorf(schemas.Invalid, "telemetry", "%w", err)
	}
	otel.SetErrorHandler(a.spansNotSent())
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about), sdktrace.WithSampler(sdktrace.AlwaysSample()))
	return telemetry{trace.NewTracer(provider.Tracer("github.com/forebay-io/forebay"), file.SampleOf()), provider}, nil
}

// spansNotSent logs why, once a minute at most: a collector that is away or refuses does so for each batch, and its answer may be a page.
func (a *App) spansNotSent() otel.ErrorHandlerFunc {
	seldom := rate.Sometimes{Interval: time.Minute}
	return func(err error) {
		seldom.Do(func() {
			a.log.Warn("spans not sent; is the collector of telemetry.endpoint there?", "error", fmt.Sprintf("%.300s", err.Error()))
		})
	}
}

// exporterOptions says where spans go, as the file has it; the variables say the rest.
func exporterOptions(file *config.Telemetry) (opts []otlptracehttp.Option) {
	if file != nil && file.Endpoint != "" {
		if at, err := url.JoinPath(file.Endpoint, "v1", "traces"); err == nil {
			opts = append(opts, otlptracehttp.WithEndpointURL(at))
		}
	}
	return append(opts, otlptracehttp.WithTimeout(5*time.Second))
}

// close sends what is left.
func (t telemetry) close(ctx context.Context) {
	if t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_ = t.provider.Shutdown(ctx)
}
