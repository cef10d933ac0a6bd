<?php
namespace App;

use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpFoundation\JsonResponse;
use Symfony\Component\HttpKernel\Kernel as BaseKernel;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;

class Kernel extends BaseKernel
{
    use MicroKernelTrait;

    public function registerBundles(): iterable
    {
        yield new FrameworkBundle();
    }

    protected function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', ['secret' => '%env(APP_SECRET)%', 'router' => ['utf8' => true]]);
        $services = $container->services()->defaults()->autowire()->autoconfigure();
        $services->set(Migrate::class);
    }

    protected function configureRoutes(RoutingConfigurator $routes): void
    {
        $routes->add('home', '/')->controller([$this, 'home']);
        $routes->add('visits', '/visits/{name}')->controller([$this, 'visits']);
    }

    public function home(): JsonResponse
    {
        return new JsonResponse(['application' => 'symfony', 'version' => BaseKernel::VERSION, 'revision' => getenv('REVISION')]);
    }

    public function visits(string $name): JsonResponse
    {
        $rows = Database::connect()->prepare('INSERT INTO visits (name) VALUES (?)');
        $rows->execute([$name]);
        $count = Database::connect()->prepare('SELECT COUNT(*) FROM visits WHERE name = ?');
        $count->execute([$name]);
        return new JsonResponse(['name' => $name, 'visits' => (int) $count->fetchColumn()]);
    }
}
